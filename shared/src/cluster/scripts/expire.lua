#!lua flags=allow-oom
-- Puts the expiry of a room into its shard's log. The room goes when that entry is folded: so everybody who reads the
-- log learns of it at the same place, and no tap in front of it is lost.
--
-- KEYS[1] the aggregator's hash: owner, beat, offset
-- KEYS[2] the log
-- KEYS[3] the activity, a sorted set: room code by the log time of its last tap or change
-- KEYS[4] the room's hash
-- ARGV[1] the owner; ARGV[2] the room's code; ARGV[3] the log time before which a room's last activity must lie
-- ARGV[4] the version that the room must have, empty if it must not be there; ARGV[5] the entry's field; ARGV[6] its value
--
-- Returns "done", or why nothing was written: "owner" (another's lease), "active" (the room was used since), "busy"
-- (the log holds what is not folded yet, perhaps a tap of this room), "changed" (the room is another than was seen).
local stands = redis.call('HMGET', KEYS[1], 'owner', 'offset')
if stands[1] ~= ARGV[1] then return 'owner' end
local active = redis.call('ZSCORE', KEYS[3], ARGV[2])
if not active or tonumber(active) >= tonumber(ARGV[3]) then return 'active' end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if last and last[1] ~= stands[2] then return 'busy' end
if (redis.call('HGET', KEYS[4], 'version') or '') ~= ARGV[4] then return 'changed' end
redis.call('XADD', KEYS[2], '*', ARGV[5], ARGV[6])
return 'done'
