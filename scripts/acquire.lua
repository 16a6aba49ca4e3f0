-- acquire: grants one lock, over one or more names, to one owner: all of the names or none.
--
-- KEYS  1 the node's marker, 2 the owner's tombstone, then the token counter of each name, then the
--       hash of each; a counter that two names share comes twice; last, of an owner that takes over,
--       the predecessor's tombstone
-- ARGV  1 level, 2 lease in ms, 3 the lock's token (0 for a fresh grant), 4 seed of the counter,
--       then, of an owner that takes over, the predecessor; or, of a writer that has met readers and
--       waits, the length of its reservation in ms,
--       last the first line of the marker of a node that accepts this client (lists.lua).
--       A fresh owner of one name at depth 1 sends three of them: see usual.lua
--
-- Replies with one of
--   the token (an integer)                  granted
--   {'held', remaining ms or -1, waiting, owner}
--                                           that owner is there; waiting subscribe to the channel
--   {'held', remaining ms, waiting, owner, readers}
--                                           only readers are there: their number at one of the names, and
--                                           that owner the last of them
--   {'quarantined', remaining ms}
--   {'marker', marker or '', last of ARGV}  the marker does not accept this client
--   {'released', 0}                         the owner has released already
--   {'passed', 0}                           the predecessor is not there, and nobody else is
--
-- An owner that takes over gets a fresh grant only if its predecessor is at every name, and replaces
-- it: the predecessor gets a tombstone. A repair replaces it too, or takes a free name, as any repair.
--
-- If an application's hash is at a name, the reply is an error: the hash may never expire. A hash of
-- one field with a time to live counts as a lock here, whatever its field: a closer look would slow
-- down every refusal. Every read precedes the first write, so a refused request leaves nothing behind.
-- There are two exceptions: if only readers are in the way, a writer's reservation keeps new ones back
-- (read.lua); and a predecessor that is not there gets its tombstone. Nobody is upgraded: if the owner is
-- a reader, it is one of those in the way.
--
-- usual has defined ARGV and owner, and, if it has read them, read and ttl.

local takesOver = #KEYS % 2 == 1
local expected, predecessor = ARGV[#ARGV], takesOver and ARGV[5]
local reservation = not takesOver and ARGV[6] and ARGV[5]
local carried, seed = tonumber(ARGV[3]), tonumber(ARGV[4])
local names = (#KEYS - (predecessor and 3 or 2)) / 2
read = read or call('MGET', unpack(KEYS, 1, 2 + names)) -- every key that is a string
local reservations = {}
for i = 3 + names, reservation and #KEYS or 0 do
  local own, name = nameAt(KEYS[i])
  reservations[#reservations + 1] = own .. writerPrefix .. name
end

-- A release that overtook this request on another connection has left a tombstone.
if read[2] then
  return {'released', 0}
end

-- Grants, repairs and re-entries all compare the members.
local marker, admitted, isItsOwn = read[1], '0', true
if not marker or string.sub(marker, 1, #expected) ~= expected then
  admitted, isItsOwn = accepts(marker, expected)
  if not admitted then
    return {'marker', marker or '', expected}
  end
end

local mine, inherited, held, heldAt, holder, counter, counterAt = 0, 0, nil, nil, nil, 0, KEYS[3]
local readers, hashes, over = nil, 0, nil
for i = 1, names do
  local key = KEYS[2 + names + i]
  local ttl = ttl or call('PTTL', key)
  if ttl ~= -2 then
    local found = redis.pcall('HEXISTS', key, owner)
    if found == 1 then
      mine = mine + 1
    elseif found == 0 and predecessor and call('HEXISTS', key, predecessor) == 1 then
      inherited = inherited + 1
    else
      local other, wrong, ends
      if found ~= 0 or ttl == -1 or call('HLEN', key) > 1 then
        other, wrong, ends = lockAt(key)
        if not other then
          return wrong
        end
        if found ~= 0 and not ends then -- the user may not look for the owner, who may be there
          found.err = found.err .. ' (HEXISTS)'
          return found
        end
      end
      if ends then
        local time = call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        ttl = ends - now
        if ttl < 0 then -- all readers' leases are over
          other, wrong = lockAt(key, true)
          if not other then
            return wrong
          end
          over = over or {}
          over[#over + 1] = key
        else
          readers = math.max(readers or 0, call('ZCOUNT', key, string.format('%.0f', now), '+inf'))
          holder = holder or not heldAt and other
        end
      else
        hashes = hashes + 1
      end
      if not ends or ttl >= 0 then
        if ttl == -1 or held == -1 then
          held = -1
        elseif not held or ttl > held then
          held = ttl
        end
        heldAt = heldAt or key
      end
    end
  end
  local c = read[2 + i]
  if not c then -- MGET returns nil for a key of another type too: GET fails there
    c = redis.pcall('GET', KEYS[2 + i])
    if type(c) == 'table' and not string.find(c.err, 'WRONGTYPE', 1, true) then
      return c
    end
  end
  if c then
    c = tonumber(c)
    if not c or c ~= c then
      return redis.error_reply(ofCounter .. KEYS[2 + i] .. isNoNumber)
    end
    if c > counter then counter, counterAt = c, KEYS[2 + i] end
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
  -- Waiters space their attempts by the number of subscribers. It is 0 if the user may not ask.
  holder = string.sub(holder or call('HKEYS', heldAt)[1], 1, 1024)
  local waiting = redis.pcall('PUBSUB', 'NUMSUB', channelAt(KEYS[3 + names]))[2] or 0
  if hashes > 0 then
    return {'held', held, waiting, holder}
  end
  for i = 1, #reservations do -- refused if the server is out of memory
    redis.pcall('SET', reservations[i], owner, 'PX', reservation)
  end
  return {'held', held, waiting, holder, readers}
end

if predecessor and carried == 0 and mine + inherited < names then
  -- A late request of its, which no release follows, must not be granted; refused if out of memory.
  redis.pcall('SET', KEYS[#KEYS], '1', 'PX', string.match(expected, '^0 %S+ (%d+)'))
  return {'passed', 0}
end

-- A fresh grant raises the counter. A resent request, a re-entry and a repair do not. No script
-- lowers a counter: other names share it.
local token = counter
if carried > 0 then
  if carried > token then token = carried end
else
  if mine < names then token = token + 1 end
  if seed > token then token = seed end
end
-- Seeds are below 2^52, the microseconds of the year 2112, and so are tokens: a higher counter was
-- written by another program. A token from it would be written back to the other nodes, and none of
-- them could count on from there for long.
if token >= 4503599627370496 then
  return redis.error_reply(ofCounter .. counterAt .. isTooHigh)
end

if admitted ~= '0' then -- long ago: later requests need not read the clock
  call('SET', KEYS[1], '0' .. string.sub(marker, #admitted + 1))
end
if predecessor then -- a late request of its must not bring it back: its ticket would work again
  call('SET', KEYS[#KEYS], '1', 'PX', string.match(expected, '^0 %S+ (%d+)'))
end
-- The token usually is the seed, whose text is an argument: formatting a number takes Lua longer than
-- a command takes Redis.
local text = token == seed and ARGV[4] or string.format('%.0f', token)
if over then
  call('DEL', unpack(over))
end
for i = 1, #reservations do -- from now on all writers and readers have the same chance
  call('DEL', reservations[i])
end
for i = 1, names do
  local key = KEYS[2 + names + i]
  if call('HSET', key, owner, ARGV[1]) == 1 then
    local wrote = redis.pcall('PEXPIRE', key, ARGV[2])
    if type(wrote) == 'table' then -- the user may not: no lock without a lease
      redis.pcall('HDEL', key, owner)
      wrote.err = wrote.err .. ' (PEXPIRE)'
      return wrote
    end
    if predecessor then
      call('HDEL', key, predecessor)
    end
  else
    -- A time to live is never shortened, since the holder may rely on it. A key without one (PERSIST)
    -- gets none.
    local ttl = call('PTTL', key)
    if ttl ~= -1 and ttl < tonumber(ARGV[2]) then
      call('PEXPIRE', key, ARGV[2])
    end
  end
  if read[2 + i] ~= text then
    call('SET', KEYS[2 + i], text)
  end
end
return token
