#!lua
-- Makes or changes a room: the room's hash and the entry that tells the shard's readers, in one go.
--
-- KEYS[1]  the room's hash: version, room (JSON), change (the id of the change that made it what it is)
-- KEYS[2]  the shard's log, a stream
-- ARGV[1]  the version the change was made for; 0: the room must not exist
-- ARGV[2]  the version afterwards; the same as ARGV[1]: nothing changes, but see "kept"
-- ARGV[3]  the room afterwards, as JSON
-- ARGV[4]  the change's id, random: a repeated attempt is known by it
-- ARGV[5]  the field of the log entry
-- ARGV[6]  the value of the log entry
--
-- Answers { outcome, version, room }, the last two as they stand now (0 and "" for no room):
--   "done"      changed
--   "kept"      this very change had been made before, or nothing was to change; the hash was written once more
--               all the same, so that a WAIT behind this script covers whatever came before
--   "conflict"  the room has another version, or exists where it must not; nothing was written
--   "none"      there is no such room; nothing was written
--
-- Not run when Redis is out of memory (no allow-oom): a room change can wait.

-- Everything that can be wrong is looked at before anything is written: a script is not rolled back.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'hash' then
  return redis.error_reply('WRONGTYPE the room is kept in a ' .. kind .. ' instead of a hash')
end
kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'none' and kind ~= 'stream' then
  return redis.error_reply('WRONGTYPE the log is a ' .. kind .. ' instead of a stream')
end

local found = redis.call('HMGET', KEYS[1], 'version', 'room', 'change')
local version, room, change = found[1], found[2], found[3]

if version and change == ARGV[4] then
  redis.call('HSET', KEYS[1], 'change', change)
  return { 'kept', tonumber(version), room }
end
if not version then
  if ARGV[1] ~= '0' then
    return { 'none', 0, '' }
  end
elseif version ~= ARGV[1] then
  return { 'conflict', tonumber(version), room }
elseif ARGV[1] == ARGV[2] then
  redis.call('HSET', KEYS[1], 'version', version)
  return { 'kept', tonumber(version), room }
end

redis.call('HSET', KEYS[1], 'version', ARGV[2], 'room', ARGV[3], 'change', ARGV[4])
redis.call('XADD', KEYS[2], '*', ARGV[5], ARGV[6])
return { 'done', tonumber(ARGV[2]), ARGV[3] }
