-- renew: raises the time to live of many locks, each only if its owner is still in the hash. A key
-- without a time to live (PERSIST) outlives any lease, and stays so.
--
-- KEYS  1 the node's marker, then the token counter of each name, then its key: a lock's hash, or the
--       readers
-- ARGV  for each name: owner, or readerPrefix and the owner of a reader, token, lease in ms,
--       last the first line of the marker of a node that accepts this client (lists.lua)
--
-- Replies with one letter for each name: R renewed, G gone (no key), T taken (another owner, or a
-- key of another type), F failed (the owner is a reader, and the server refuses to raise its lease). If
-- the marker does not accept this client, it renews nothing and replies with
-- {'marker', marker or '', the expected line, the letters}, with N where the owner is. It gives the
-- same reply, but renews, if the marker is an earlier process's and came back with its data: the
-- node must be marked. A node in quarantine renews. It writes as little as possible, because it must
-- work when the server is out of memory. One bad key does not stop the others. A command that this
-- user may not run is an error.

local expected, names = ARGV[#ARGV], (#KEYS - 1) / 2
local read = redis.call('MGET', unpack(KEYS, 1, 1 + names)) -- every key that is a string
local marker = read[1]
local isAccepted, isItsOwn = true, true
if not marker or string.sub(marker, 1, #expected) ~= expected then
  isAccepted, isItsOwn = accepts(marker, expected)
end

local now
-- reader returns the end of a reader's lease, and 1 if it is there, 0 if it is not, or an error. A node
-- that has missed the downgrade has the reader's hash.
local function reader(key, owner)
  local ends = redis.pcall('ZSCORE', key, owner)
  if type(ends) == 'table' then
    local found = redis.pcall('HEXISTS', key, string.sub(owner, #readerPrefix + 1))
    local isNoHash = type(found) == 'table' and string.find(found.err, 'WRONGTYPE', 1, true)
    return nil, isNoHash and ends or found
  end
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  ends = tonumber(ends or '-1')
  return ends, ends >= now and 1 or 0
end

-- prolong raises the end of a reader's lease. It returns false if the server refuses that. A write that needs
-- no memory comes first: a server that is out of memory lets a script that has written write on.
local function prolong(key, owner, ends, lease)
  local ttl = redis.call('PTTL', key)
  if ttl == -1 then
    redis.call('PERSIST', key) -- changes nothing
  else
    redis.call('PEXPIRE', key, math.max(ttl, lease))
  end
  local wrote = ends >= now + lease or redis.pcall('ZADD', key, string.format('%.0f', now + lease), owner)
  return type(wrote) ~= 'table'
end

local out = {}
for i = 1, names do
  local key, counterKey, j = KEYS[1 + names + i], KEYS[1 + i], 3 * i - 2
  local owner, token, lease = ARGV[j], tonumber(ARGV[j + 1]), tonumber(ARGV[j + 2])
  local found, ends
  if string.sub(owner, 1, #readerPrefix) == readerPrefix then
    ends, found = reader(key, owner)
  else
    found = redis.pcall('HEXISTS', key, owner)
  end
  if found == 1 and not isAccepted then
    out[#out + 1] = 'N'
  elseif found == 1 and ends and not prolong(key, owner, ends, lease) then
    out[#out + 1] = 'F'
  elseif found == 1 then
    local ttl = redis.call('PTTL', key)
    if ttl ~= -1 and ttl < lease then
      redis.call('PEXPIRE', key, ARGV[j + 2])
    end
    if (tonumber(read[1 + i] or 0) or token) < token then
      -- It is read again: another lock of this call may share the counter and have raised it. MGET
      -- returns nil for a key of another type too, and GET an error there.
      local counter = redis.pcall('GET', counterKey) or '0'
      if type(counter) == 'string' and tonumber(counter) < token then
        redis.pcall('SET', counterKey, ARGV[j + 1])
      end
    end
    out[#out + 1] = 'R'
  elseif found == 0 and redis.call('EXISTS', key) == 0 then
    out[#out + 1] = 'G'
  elseif found == 0 or string.find(found.err, 'WRONGTYPE', 1, true) then
    out[#out + 1] = 'T'
  else
    return found -- the server refuses the command, which says nothing about the lock
  end
end
if not isItsOwn then
  return {'marker', marker or '', expected, table.concat(out)}
end
return table.concat(out)
