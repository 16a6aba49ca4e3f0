-- acquire: grants one lock, over one or more names, to one owner: all of the names or none.
--
-- KEYS  1 the node's marker, 2 the owner's tombstone, then the token counter of each name, then its
--       hash
-- ARGV  1 owner, 2 level, 3 lease in ms, 4 the lock's token (0 for a fresh grant), 5 seed of the
--       counter, 6 time to live of the counter in ms, 7 channel of the first name,
--       8 the first line of the marker of a node that lets this client in (lists.lua)
--
-- Replies with one of
--   the token (an integer)                  granted
--   {'held', remaining ms or -1, waiting}   another owner; so many subscribe to the channel
--   {'quarantined', remaining ms}
--   {'marker', marker or '', ARGV[8]}       the marker does not let this client in
--   {'released', 0}                         the owner has released already
--
-- A hash of an application at a name is an error, because it may never end. A hash of a single
-- field with a time to live counts as a lock here, whatever its field: a closer look would make
-- every refusal slower. Every read precedes the first write: a request that is refused leaves
-- nothing behind.

local owner, expected = ARGV[1], ARGV[8]
local carried, seed = tonumber(ARGV[4]), tonumber(ARGV[5])
local names = #KEYS / 2 - 1
local read = call('MGET', unpack(KEYS, 1, 2 + names)) -- every key that is a string

-- A release that overtook this request on another connection has left a tombstone.
if read[2] then
  return {'released', 0}
end

-- Every request compares the members: a grant, a repair and a re-entry alike.
local marker, admitted, isItsOwn = read[1], '0', true
if not marker or string.sub(marker, 1, #expected) ~= expected then
  admitted, isItsOwn = letsIn(marker, expected)
  if not admitted then
    return {'marker', marker or '', expected}
  end
end

local mine, held, counter = 0, nil, 0
for i = 1, names do
  local key = KEYS[2 + names + i]
  local ttl = call('PTTL', key)
  if ttl ~= -2 then
    if call('HEXISTS', key, owner) == 1 then
      mine = mine + 1
    else
      if ttl == -1 or call('HLEN', key) > 1 then
        local other, wrong = lockAt(key)
        if not other then
          return wrong
        end
      end
      if ttl == -1 or held == -1 then
        held = -1
      elseif not held or ttl > held then
        held = ttl
      end
    end
  end
  -- MGET returns nil for a key of another type too: GET fails there.
  local c = read[2 + i] or call('GET', KEYS[2 + i])
  if c then
    c = tonumber(c)
    if not c or c ~= c then
      local shown = string.gsub(KEYS[2 + i], '%c', '?')
      return redis.error_reply('QUORUMLOCK the token counter "' .. shown .. '" is not a number')
    end
    if c > counter then counter = c end
  end
end

-- A node that may have forgotten grants nothing new. An owner that is in every hash already
-- (re-entry) may stay.
local isFresh = carried == 0 or mine < names
if isFresh and not isItsOwn then
  return {'marker', marker, expected}
end
if admitted ~= '0' and isFresh then
  local time = call('TIME')
  local left = tonumber(admitted) - (time[1] * 1000 + math.floor(time[2] / 1000))
  if left > tonumber(string.match(expected, '^0 %S+ (%d+)')) then
    return {'marker', marker, expected} -- the server's clock stepped back
  end
  if left > 0 then
    return {'quarantined', left}
  end
else
  admitted = '0'
end

if held then
  -- Waiters space their attempts by the number of subscribers. It is 0 where the user may not ask.
  return {'held', held, redis.pcall('PUBSUB', 'NUMSUB', ARGV[7])[2] or 0}
end

-- A fresh grant raises the counter. A resent request, a re-entry and a repair do not.
local token = counter
if carried > 0 then
  if carried > token then token = carried end
else
  if mine < names then token = token + 1 end
  if seed > token then token = seed end
end
if token >= 9007199254740992 then
  return redis.error_reply('QUORUMLOCK the token counter has reached 2^53')
end

if admitted ~= '0' then -- long ago: later requests need not read the clock
  call('SET', KEYS[1], '0' .. string.sub(marker, #admitted + 1))
end
-- The usual token is the seed, whose text is an argument. Lua takes longer to format a number than
-- Redis to run a command.
local text = token == seed and ARGV[5] or string.format('%.0f', token)
for i = 1, names do
  local key = KEYS[2 + names + i]
  if call('HSET', key, owner, ARGV[2]) == 1 then
    call('PEXPIRE', key, ARGV[3])
  else
    -- A time to live is never shortened: the holder may rely on a longer lease. A key without one
    -- (PERSIST) gets none.
    local ttl = call('PTTL', key)
    if ttl ~= -1 and ttl < tonumber(ARGV[3]) then
      call('PEXPIRE', key, ARGV[3])
    end
  end
  call('SET', KEYS[2 + i], text, 'PX', ARGV[6])
end
return token
