-- renew: raises the time to live of many locks, each only if its owner is still in the hash. A key
-- without a time to live (PERSIST) outlives any lease, and stays so.
--
-- KEYS  1 the node's marker, then the token counter of each name, then its key: a lock's hash, or the
--       readers
-- ARGV  for each name: owner, or readerPrefix and the owner of a reader; then lease in ms, the tokens, 16
--       digits for each name, last the first line of the marker of a node that accepts this client (lists.lua)
--
-- Replies with one letter for each name: R renewed, G gone (no key), T taken (another owner, or a
-- key of another type), F failed (the owner is a reader, and the server refuses to raise its lease). If
-- the marker does not accept this client, it renews nothing and replies with
-- {'marker', marker or '', the expected line, the letters}, with N where the owner is. It gives the
-- same reply, but renews, if the marker is an earlier process's and came back with its data: the
-- node must be marked. A node in quarantine renews. It writes as little as possible, because it must
-- work when the server is out of memory. One bad key does not stop the others. A command that this
-- user may not run is an error.

local call, pcall, keys, args, names = redis.call, redis.pcall, KEYS, ARGV, (#KEYS - 1) / 2
local lease, tokens, expected = args[names + 1], args[names + 2], args[names + 3]
local raises = redis.REDIS_VERSION_NUM -- since Redis 7.0, PEXPIRE can raise a time to live
local read = call('MGET', unpack(keys, 1, 1 + names)) -- every key that is a string
local marker = read[1]
local isAccepted, isItsOwn = true, true
if not marker or string.sub(marker, 1, #expected) ~= expected then
  isAccepted, isItsOwn = accepts(marker, expected)
end

local now
-- reader returns the end of a reader's lease, and 1 if it is there, 0 if it is not, or an error and its command. A
-- node that has missed the downgrade has the reader's hash.
local function reader(key, owner)
  local ends = pcall('ZSCORE', key, owner)
  if type(ends) == 'table' then
    local found = pcall('HEXISTS', key, string.sub(owner, #readerPrefix + 1))
    local isNoHash = type(found) == 'table' and string.find(found.err, 'WRONGTYPE', 1, true)
    if isNoHash then
      return nil, ends, 'ZSCORE'
    end
    return nil, found, 'HEXISTS'
  end
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  ends = tonumber(ends or '-1')
  return ends, ends >= now and 1 or 0
end

-- prolong raises the end of a reader's lease. It returns false if the server refuses that. A write that needs
-- no memory comes first: a server that is out of memory lets a script that has written write on.
local function prolong(key, owner, ends)
  local ttl = call('PTTL', key)
  if ttl == -1 then
    call('PERSIST', key) -- changes nothing
  else
    call('PEXPIRE', key, math.max(ttl, lease))
  end
  local wrote = ends >= now + lease or pcall('ZADD', key, string.format('%.0f', now + lease), owner)
  return type(wrote) ~= 'table'
end

local out = {}
for i = 1, names do
  local key, owner, command, found, ends = keys[1 + names + i], args[i], 'HEXISTS', nil, nil
  if string.sub(owner, 1, #readerPrefix) == readerPrefix then
    ends, found, command = reader(key, owner)
  else
    found = pcall('HEXISTS', key, owner)
  end
  if found == 1 and not isAccepted then
    out[i] = 'N'
  elseif found == 1 and ends and not prolong(key, owner, ends) then
    out[i] = 'F'
  elseif found == 1 then
    if not ends and (not raises or type(pcall('PEXPIRE', key, lease, 'GT')) == 'table') then
      local ttl = call('PTTL', key)
      if ttl ~= -1 and ttl < tonumber(lease) then
        call('PEXPIRE', key, lease)
      end
    end
    local counter, token = read[1 + i], string.sub(tokens, 16 * i - 15, 16 * i)
    -- Usually both have 16 digits, and the texts have the order of the numbers.
    if not counter or #counter ~= 16 or counter < token then
      token = tonumber(token)
      -- It is read again: another lock of this call may share the counter and have raised it. MGET
      -- returns nil for a key of another type too, and GET an error there.
      counter = pcall('GET', keys[1 + i]) or '0'
      if (tonumber(counter) or token) < token then
        pcall('SET', keys[1 + i], string.format('%.0f', token))
      end
    end
    out[i] = 'R'
  elseif found == 0 and call('EXISTS', key) == 0 then
    out[i] = 'G'
  elseif found == 0 or string.find(found.err, 'WRONGTYPE', 1, true) then
    out[i] = 'T'
  else
    found.err = found.err .. ' (' .. command .. ')'
    return found -- the server refuses the command, which says nothing about the lock
  end
end
if not isItsOwn then
  return {'marker', marker or '', expected, table.concat(out)}
end
return table.concat(out)
