-- acquires: grants many locks of one name each, each to a fresh owner: one run for acquires that
-- are sent together.
--
-- KEYS  1 the node's marker, then the tombstone of each owner, then the token counter of each name,
--       then its hash
-- ARGV  1 the first line of the marker of a node that lets this client in, 2 lease in ms,
--       then the seed of each counter
--
-- Replies with one of
--   1     each lock was granted, and its token is its seed
--   0     none was granted, and nothing was written: acquire tells why
--   {..}  for each lock:
--           the token              granted
--           0                      not granted: acquire tells why
--           {'held', remaining ms, waiting, owner}
--                                  as acquire replies
--           an error               not granted: the server has refused to write the hash
--
-- It grants in the usual case only: the marker is that of a node that lets the client in and has
-- granted for long, no tombstone is there, the hash is not, and the counter is a number. Each lock
-- gets what it would get by acquires one after the other. Of two locks that share a counter, as two
-- of one name do, the run grants the first.

local call, pcall, expected = redis.call, redis.pcall, ARGV[1]
local n = (#KEYS - 1) / 3
local tombs, counters, hashes = 1, 1 + n, 1 + 2 * n -- the key before the first
local read = call('MGET', unpack(KEYS, 1, hashes))
if not read[1] or string.sub(read[1], 1, #expected) ~= expected then
  return 0
end
local someHeld = call('EXISTS', unpack(KEYS, hashes + 1)) > 0

-- Every read precedes the first write.
local replies, usual, set, counted = {}, true, {}, {}
for i = 1, n do
  local key, counter, text, reply = KEYS[hashes + i], KEYS[counters + i], ARGV[2 + i], 0
  -- MGET returns nil for a key of another type too: GET fails there, and an error is no number.
  local token, seed = tonumber(read[counters + i] or pcall('GET', counter) or 0), tonumber(text)
  if read[tombs + i] or counted[counter] or not token or not (token < 9007199254740991) then
    usual = false
  elseif someHeld and call('EXISTS', key) == 1 then
    usual = false
    local owner = pcall('HKEYS', key) -- an error has no first element
    local ttl = call('PTTL', key)
    if #owner == 1 and ttl >= 0 and owner[1] ~= string.sub(KEYS[tombs + i], ownerAt) then
      local channel = channelPrefix .. (string.find(key, '{', 1, true) and key or '{' .. key .. '}')
      reply = {'held', ttl, pcall('PUBSUB', 'NUMSUB', channel)[2] or 0, string.sub(owner[1], 1, 1024)}
    end
  else
    if token < seed then
      token = seed
    else
      token, usual = token + 1, false
      text = string.format('%.0f', token)
    end
    counted[counter], reply = true, token
    set[#set + 1] = counter
    set[#set + 1] = text
  end
  replies[i] = reply
end

-- The counters first: a counter that has risen without a grant does no harm.
if #set > 0 then
  call('MSET', unpack(set))
end
local lease = ARGV[2]
for i = 1, n do
  local token = replies[i]
  if type(token) == 'number' and token > 0 then
    local key, owner = KEYS[hashes + i], string.sub(KEYS[tombs + i], ownerAt)
    local wrote = pcall('HSET', key, owner, '1')
    if wrote == 1 then
      wrote = pcall('PEXPIRE', key, lease)
      if wrote ~= 1 then -- no lock without a lease
        pcall('HDEL', key, owner)
      end
    end
    if wrote ~= 1 then
      replies[i], usual = wrote, false
    end
  end
end
return usual and 1 or replies
