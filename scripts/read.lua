-- read: grants one name to a reader, alongside other readers. It also makes a reader of the name's holder,
-- without a gap: a downgrade.
--
-- KEYS  1 the node's marker, 2 the owner's tombstone, 3 the token counter, 4 the reservation of a writer
--       that waits, 5 the bar of a forced release, 6 the name's key: a lock's hash, or the readers
-- ARGV  1 lease in ms, 2 the lock's token (0 for a fresh grant), 3 seed of the counter, 4 the first line of the
--       marker of a node that accepts this client (lists.lua)
--
-- Replies as acquire does. The readers are a sorted set: each with the end of its lease, in ms by this
-- server's clock. The key lives at least as long as the last lease. If a writer has a reservation, a
-- fresh request gets {'reserved', remaining ms of the reservation, waiting}. A reader that holds may renew,
-- and read again. Every read precedes the first write.

local owner, expected, key = string.sub(KEYS[2], #KEYS[1] + ownerAt), ARGV[4], KEYS[6]
local reader, lease, carried, seed = readerPrefix .. owner, tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local read = call('MGET', unpack(KEYS, 1, 5)) -- every key that is a string

local forced = tonumber(read[5]) or -1
if read[2] or carried > 0 and carried <= forced then
  return {'released', 0}
end
local marker, admitted, isItsOwn = read[1], '0', true
if not marker or string.sub(marker, 1, #expected) ~= expected then
  admitted, isItsOwn = accepts(marker, expected)
  if not admitted then
    return {'marker', marker or '', expected}
  end
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends, level, held, holder, isStale = nil, nil, nil, nil, false
local ttl = call('PTTL', key)
if ttl ~= -2 then
  local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first.err then
    isStale = tonumber(first[2]) < now
    local last = call('ZREVRANGE', key, 0, 0)[1]
    if isStale or string.sub(first[1], 1, #readerPrefix) ~= readerPrefix or string.sub(last, 1, #readerPrefix) ~= readerPrefix then
      local other, wrong = lockAt(key, isStale) -- what is stale is deleted below
      if not other then
        return wrong
      end
    end
    ends = tonumber(call('ZSCORE', key, reader) or '-1')
    if ends < now then
      ends = nil
    end
  elseif string.find(first.err, 'WRONGTYPE', 1, true) then
    level = call('HGET', key, owner)
    if not level then
      if ttl == -1 or call('HLEN', key) > 1 then
        local other, wrong = lockAt(key)
        if not other then
          return wrong
        end
      end
      held, holder = ttl, string.sub(call('HKEYS', key)[1], 1, 1024)
    end
  else
    first.err = first.err .. ' (ZRANGE)'
    return first
  end
end

-- MGET returns nil for a key of another type too: GET fails there.
local counter = read[3] or redis.pcall('GET', KEYS[3]) or '0'
if type(counter) == 'table' and not string.find(counter.err, 'WRONGTYPE', 1, true) then
  return counter
end
counter = tonumber(counter)
if not counter or counter ~= counter then
  return redis.error_reply(ofCounter .. KEYS[3] .. isNoNumber)
end

-- As in acquire: a node that may have forgotten grants nothing new.
local isThere = ends or level
local isFresh = carried == 0 or not isThere
if isFresh and not isItsOwn then
  return {'marker', marker, expected}
end
if admitted ~= '0' and isFresh then
  local left = tonumber(admitted) - now
  if left > tonumber(string.match(expected, '^0 %S+ (%d+)')) then
    return {'marker', marker, expected} -- the server's clock stepped back
  end
  if left > 0 then
    return {'quarantined', left}
  end
else
  admitted = '0'
end

local isReserved = not held and carried == 0 and not isThere and read[4]
if held or isReserved then
  local waiting = redis.pcall('PUBSUB', 'NUMSUB', channelAt(key))[2] or 0
  if isReserved then
    return {'reserved', call('PTTL', KEYS[4]), waiting}
  end
  return {'held', held, waiting, holder}
end

local token = counter
if carried > 0 then
  if carried > token then token = carried end
else
  if not isThere then token = token + 1 end
  if seed > token then token = seed end
end
if token >= 4503599627370496 then
  return redis.error_reply(ofCounter .. KEYS[3] .. isTooHigh)
end

if admitted ~= '0' then -- long ago: later requests need not read the clock
  call('SET', KEYS[1], '0' .. string.sub(marker, #admitted + 1))
end
if level and ttl ~= -1 then -- a server that is out of memory lets a script write on that has written without memory
  call('PEXPIRE', key, math.max(ttl, lease))
end
-- A server that is out of memory refuses this write of others, before anything has changed.
call('SET', KEYS[3], token == seed and ARGV[3] or string.format('%.0f', token))
-- A time to live is never shortened, since the holder may rely on it.
local last = now + math.max(ttl, lease)
ends = math.max(ends or 0, level and last or now + lease)
if isStale then
  call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', now))
end
if level then
  call('HDEL', key, owner)
end
local till = string.format('%.0f', ends)
local wrote = redis.pcall('ZADD', key, till, reader)
if type(wrote) == 'table' then
  if level then -- the user may not: the hold stays
    call('HSET', key, owner, level)
    if ttl ~= -1 then
      call('PEXPIRE', key, math.max(ttl, 1))
    end
  end
  wrote.err = wrote.err .. ' (ZADD)'
  return wrote
end
if ttl ~= -1 or level then -- a set without one (PERSIST) outlives any lease, and stays so
  wrote = redis.pcall('PEXPIREAT', key, last == ends and till or string.format('%.0f', last))
  if type(wrote) == 'table' then -- the user may not
    if not isThere then
      redis.pcall('ZREM', key, reader)
    end
    wrote.err = wrote.err .. ' (PEXPIREAT)'
    return wrote
  end
end
if level then -- for readers that wait
  redis.pcall('PUBLISH', channelAt(key), '0')
end
return token
