#!lua flags=allow-oom
-- Commits what an aggregator folded from a shard's log, and publishes the tick. All or nothing: everything is checked
-- before anything is written, since a script that fails midway keeps what it wrote. Totals are absolute, so the
-- same commit twice would do no harm; the offset sees to it that there is no second one.
--
-- KEYS[1] the aggregator's hash: owner, beat, offset
-- KEYS[2] the log
-- KEYS[3] the producers' hash: producer -> "number log_ms"
-- KEYS[4] the activity, a sorted set: room code by the log time of its last tap or change
-- KEYS[5] the ticks channel
-- KEYS[6..] for each room in turn: its totals, its hash
--
-- ARGV[1] the owner; ARGV[2] the offset that must stand there, 0-0 for none; ARGV[3] the offset to put there
-- ARGV[4] the message to publish, empty for none
-- ARGV[5] how many producers have a new mark, then for each: producer, mark
-- then    how many producers are forgotten, then for each: producer
-- then    how many rooms there are, then for each: its code; what it begins with ("kept": what stands there,
--         "created": nothing, "expired": nothing, and its hash is deleted if it still has the version that expired);
--         that version; the log time of its last tap or change, empty for none; how many totals, then reaction, total …
--
-- Returns "done", or why nothing was written: "owner" (another's lease), "offset" (another commit came between),
-- "log" (the last folded entry is not in it), "type" (a key holds something else), "shape" (the arguments are wrong).
local at = 4
local function take()
  at = at + 1
  return ARGV[at]
end
local function take_count()
  local count = tonumber(take())
  return count and count >= 0 and count == math.floor(count) and count <= #ARGV and count or nil
end

local marks_count = take_count()
if not marks_count then return 'shape' end
local marks_from = at + 1
at = at + 2 * marks_count
local forgotten_count = take_count()
if not forgotten_count then return 'shape' end
local forgotten_from = at + 1
at = at + forgotten_count
local rooms_count = take_count()
if not rooms_count or #KEYS ~= 5 + 2 * rooms_count then return 'shape' end
local rooms = {}
for i = 1, rooms_count do
  local room = { totals = KEYS[4 + 2 * i], hash = KEYS[5 + 2 * i] }
  room.code, room.begins, room.version, room.active = take(), take(), take(), take()
  local count = take_count()
  if not count then return 'shape' end
  if room.begins ~= 'kept' and room.begins ~= 'created' and room.begins ~= 'expired' then return 'shape' end
  if room.active ~= '' and not tonumber(room.active) then return 'shape' end
  room.from = at + 1
  at = at + 2 * count
  room.to = at
  rooms[i] = room
end
if at ~= #ARGV then return 'shape' end

local function is(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end
if not is(KEYS[1], 'hash') or not is(KEYS[2], 'stream') or not is(KEYS[3], 'hash') or not is(KEYS[4], 'zset') then
  return 'type'
end
for _, room in ipairs(rooms) do
  if not is(room.totals, 'hash') or not is(room.hash, 'hash') then return 'type' end
end
local stands = redis.call('HMGET', KEYS[1], 'owner', 'offset')
if stands[1] ~= ARGV[1] then return 'owner' end
if (stands[2] or '0-0') ~= ARGV[2] then return 'offset' end
if ARGV[3] ~= ARGV[2] and #redis.call('XRANGE', KEYS[2], ARGV[3], ARGV[3]) ~= 1 then return 'log' end

-- From here on nothing can fail. Lua passes only so many arguments at once, so long lists go in slices.
local function in_slices(from, to, width, write)
  while from <= to do
    write(from, math.min(from + width - 1, to))
    from = from + width
  end
end
for _, room in ipairs(rooms) do
  if room.begins ~= 'kept' then redis.call('UNLINK', room.totals) end
  if room.begins == 'expired' then
    redis.call('ZREM', KEYS[4], room.code)
    if redis.call('HGET', room.hash, 'version') == room.version then redis.call('UNLINK', room.hash) end
  end
  in_slices(room.from, room.to, 1000, function(from, to)
    redis.call('HSET', room.totals, unpack(ARGV, from, to))
  end)
  if room.active ~= '' then redis.call('ZADD', KEYS[4], 'GT', room.active, room.code) end
end
in_slices(marks_from, marks_from + 2 * marks_count - 1, 1000, function(from, to)
  redis.call('HSET', KEYS[3], unpack(ARGV, from, to))
end)
in_slices(forgotten_from, forgotten_from + forgotten_count - 1, 1000, function(from, to)
  redis.call('HDEL', KEYS[3], unpack(ARGV, from, to))
end)
if ARGV[3] ~= ARGV[2] then redis.call('HSET', KEYS[1], 'offset', ARGV[3]) end
redis.call('HINCRBY', KEYS[1], 'beat', 1)
if ARGV[4] ~= '' then redis.call('SPUBLISH', KEYS[5], ARGV[4]) end
return 'done'
