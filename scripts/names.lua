-- names: what follows from keys. This text precedes acquire's, acquires' and read's, whose first key is the marker's.

-- nameAt returns the deployment's prefix, if it has one, and the name of the lock at a key.
local function nameAt(key)
  local own = string.sub(KEYS[1], 1, -18) -- what precedes quorumlock:marker
  return own, own == '' and key or string.gsub(string.sub(key, #own + 1), '^quorumlock:lock:', '')
end

-- channelAt returns its channel: for a slot, its semaphore's.
local function channelAt(key)
  local own, name = nameAt(key)
  if string.find(name, slotPattern) then
    name = string.gsub(name, slotPattern, slotsPrefix)
  end
  return own .. channelPrefix .. (string.find(name, '{', 1, true) and name or '{' .. name .. '}')
end

