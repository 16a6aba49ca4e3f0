-- acquires: grants many locks of one name each, each to a fresh owner. One run of it serves acquires
-- that are sent together.
--
-- KEYS  1 the node's marker, then the tombstone of each owner, then the token counter of each name,
--       then its hash
-- ARGV  1 the first line of the marker of a node that accepts this client, 2 lease in ms,
--       then the seed of each counter
--
-- Replies with one of
--   1     each lock was granted, and its token is its seed
--   0     none was granted, and nothing was written: acquire says why
--   {..}  for each lock:
--           the token, as text     granted
--           0                      not granted: acquire says why
--           {'held', remaining ms, waiting, owner}
--                                  as acquire replies
--           an error               not granted: the server has refused to write the hash
--
-- It grants in the usual case only: the node accepts the client and was admitted long ago; there is
-- no tombstone and no hash; the counter is a number. Each lock gets what acquire would give it, one
-- after the other. If two locks share a counter, as two of one name do, the run grants the first.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local expected, lease = args[1], args[2]
local n = (#keys - 1) / 3
local tombs, counters, hashes = 1, 1 + n, 1 + 2 * n -- the key before the first
local ownerAt = #keys[1] + ownerAt
local read = call('MGET', unpack(keys, 1, hashes))
if not read[1] or string.sub(read[1], 1, #expected) ~= expected then
  return 0
end
local someHeld = call('EXISTS', unpack(keys, hashes + 1)) > 0

-- Every read precedes the first write.
local replies, usual, set, counted = {}, true, {}, {}
for i = 1, n do
  local key, counter, reply = keys[hashes + i], keys[counters + i], 0
  local value, token = read[counters + i], args[2 + i]
  -- Usually both have 16 digits, and the texts have the order of the numbers: Lua takes longer to
  -- read a number than to compare texts.
  if not value or #value ~= #token or value >= token or string.find(value, '%D') then
    -- MGET returns nil for a key of another type too: GET fails there, and an error is no number.
    local number = tonumber(value or pcall('GET', counter) or 0)
    if not number or not (number < 4503599627370495) then
      token = nil
    elseif number >= tonumber(token) then
      token, usual = string.format('%.0f', number + 1), false
    end
  end
  if not token or read[tombs + i] or counted[counter] then
    usual = false
  elseif someHeld and call('EXISTS', key) == 1 then
    usual = false
    local owner = pcall('HKEYS', key) -- an error has no first element
    local ttl = call('PTTL', key)
    if #owner == 1 and ttl >= 0 and owner[1] ~= string.sub(keys[tombs + i], ownerAt) then
      reply = {'held', ttl, pcall('PUBSUB', 'NUMSUB', channelAt(key))[2] or 0, string.sub(owner[1], 1, 1024)}
    end
  else
    counted[counter], reply = true, token
    set[#set + 1] = counter
    set[#set + 1] = token
  end
  replies[i] = reply
end

-- The counters come first, since one that has risen without a grant does no harm. If the server
-- refuses to write them, because it is out of memory for example, that is no error of the locks that
-- are held.
if #set > 0 and pcall('MSET', unpack(set)).err then
  usual = false
  for i = 1, n do
    if type(replies[i]) == 'string' then replies[i] = 0 end
  end
end
for i = 1, n do
  if type(replies[i]) == 'string' then
    local key, owner = keys[hashes + i], string.sub(keys[tombs + i], ownerAt)
    local wrote = pcall('HSET', key, owner, '1')
    if wrote == 1 then
      wrote = pcall('PEXPIRE', key, lease)
      if wrote ~= 1 then -- no lock without a lease
        pcall('HDEL', key, owner)
        wrote.err = wrote.err .. ' (PEXPIRE)'
      end
    else
      wrote.err = wrote.err .. ' (HSET)'
    end
    if wrote ~= 1 then
      replies[i], usual = wrote, false
    end
  end
end
return usual and 1 or replies
