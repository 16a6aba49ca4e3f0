-- acquire: grants one lock, over one or more names, to one owner: all of the names or none.
--
-- KEYS  1 the node's marker, 2 the owner's tombstone, then for each name: its hash, its token counter
-- ARGV  1 owner, 2 level, 3 lease in ms, 4 the lock's token (0 for a fresh grant), 5 seed of the counter,
--       6 time to live of the counter in ms, 7 max lease in ms, 8 channel of the first name,
--       9 the run that the marker must name (scripts.MarkerRun)
--
-- Replies with one of
--   the token (an integer)                  granted
--   {'held', remaining ms or -1, waiting}   another owner is there; so many connections subscribe to the channel
--   {'quarantined', remaining ms}
--   {'stale', 0}                            the marker must be written first
--   {'released', 0}                         the owner has released already
--
-- A hash of an application at a name is an error, because it may never end. A hash of a single
-- field with a time to live counts as a lock here, whatever its field: a closer look would make
-- every refusal slower. Every read precedes the first write: a request that is refused leaves
-- nothing behind.

local owner = ARGV[1]
local carried, seed = tonumber(ARGV[4]), tonumber(ARGV[5])

-- A release that overtook this request on another connection has left a tombstone.
if call('EXISTS', KEYS[2]) == 1 then
  return {'released', 0}
end

local names, mine, held, counter = 0, 0, nil, 0
for i = 3, #KEYS, 2 do
  names = names + 1
  local ttl = call('PTTL', KEYS[i])
  if ttl ~= -2 then
    if call('HEXISTS', KEYS[i], owner) == 1 then
      mine = mine + 1
    else
      if ttl == -1 or call('HLEN', KEYS[i]) > 1 then
        local other, wrong = lockAt(KEYS[i])
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
  local c = call('GET', KEYS[i + 1])
  if c then
    c = tonumber(c)
    if not c or c ~= c then
      local shown = string.gsub(KEYS[i + 1], '%c', '?')
      return redis.error_reply('QUORUMLOCK the token counter "' .. shown .. '" is not a number')
    end
    if c > counter then counter = c end
  end
end

-- A node that may have forgotten grants nothing new. An owner that is in every hash already
-- (re-entry) may stay.
local passed = false -- whether this is the first grant after the quarantine
if carried == 0 or mine < names then
  local marker = call('HMGET', KEYS[1], 'run', 'admitted', 'max')
  if marker[1] ~= ARGV[9] or marker[3] ~= ARGV[7] then
    return {'stale', 0}
  end
  if marker[2] ~= '0' then
    local time = call('TIME')
    local left = (tonumber(marker[2]) or math.huge) - (time[1] * 1000 + math.floor(time[2] / 1000))
    if not (left <= tonumber(ARGV[7])) then
      return {'stale', 0} -- the server's clock stepped back, or the field is not a number
    end
    if left > 0 then
      return {'quarantined', left}
    end
    passed = true
  end
end

if held then
  -- Waiters space their attempts by the number of subscribers. It is 0 where the user may not ask.
  return {'held', held, redis.pcall('PUBSUB', 'NUMSUB', ARGV[8])[2] or 0}
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

if passed then
  call('HSET', KEYS[1], 'admitted', '0') -- long ago: later requests need not read the clock
end
-- The usual token is the seed, whose text is an argument. Lua takes longer to format a number than
-- Redis to run a command.
local text = token == seed and ARGV[5] or string.format('%.0f', token)
for i = 3, #KEYS, 2 do
  if call('HSET', KEYS[i], owner, ARGV[2]) == 1 then
    call('PEXPIRE', KEYS[i], ARGV[3])
  else
    -- A time to live is never shortened: the holder may rely on a longer lease. A key without one
    -- (PERSIST) gets none.
    local ttl = call('PTTL', KEYS[i])
    if ttl ~= -1 and ttl < tonumber(ARGV[3]) then
      call('PEXPIRE', KEYS[i], ARGV[3])
    end
  end
  call('SET', KEYS[i + 1], text, 'PX', ARGV[6])
end
return token
