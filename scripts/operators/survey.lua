-- survey: finds names of locks and of readers, in bounded time. It writes nothing, and is for an
-- operator's eyes: clients that lock neither load nor send it. It comes after shape.lua.
--
-- ARGV  1 the pattern of the locks' channels, 2 the cursor of SCAN, 3 how many keys SCAN may look
--       at, 4 the most channels to name
--
-- Replies with {the next cursor, {name, ...}, {channel, subscribers, ...}}: the locks among these
-- keys, and the channels with the most subscribers if the user may ask.

local found
local names, own = {}, string.sub(ARGV[1], 1, -25) -- the prefix, if the deployment has one: what precedes redisson_lock__channel:*
-- nameAt returns the name of the deployment's lock at a key.
local function nameAt(key)
  if own == '' then
    local prefix, kind = string.match(key, '^([%w._-]+):quorumlock:(%l+):')
    local isAnothers = prefix and #prefix <= 64 and (kind == 'lock' or kind == 'slot' or kind == 'trial')
    return not isAnothers and key
  end
  local name, at = string.gsub(string.sub(key, #own + 1), '^quorumlock:lock:', '')
  return string.sub(key, 1, #own) == own and (at == 1 or string.find(name, '^quorumlock:slot:')) and name
end
for _, kind in ipairs({'hash', 'zset'}) do -- both go through the same keys
  found = call('SCAN', ARGV[2], 'COUNT', ARGV[3], 'TYPE', kind)
  for _, key in ipairs(found[2]) do
    local name = nameAt(key)
    if name and #key <= 512 and #names < 1000 then -- no other key is read: the server would log that the user may not
      local may, owner = pcall(lockAt, key) -- the user may not read every key
      if may and owner then
        names[#names + 1] = name
      end
    end
  end
end

local channels, counts, most = redis.pcall('PUBSUB', 'CHANNELS', ARGV[1]), {}, {}
for i = 1, #channels do -- an error has none
  counts[i] = {channels[i], call('PUBSUB', 'NUMSUB', channels[i])[2]}
end
table.sort(counts, function(a, b) return a[2] > b[2] end)
for i = 1, math.min(#counts, tonumber(ARGV[4])) do
  most[#most + 1] = string.sub(counts[i][1], 1, 2048)
  most[#most + 1] = counts[i][2]
end
return {found[1], names, most}
