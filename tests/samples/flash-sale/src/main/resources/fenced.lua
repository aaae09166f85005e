-- One Redis command, made only if no owner with a larger token has been here.
-- KEYS[1] remembers the largest token, KEYS[2] is the key of the command; ARGV: the token, the command, its arguments.
-- Tokens are revisions of etcd, far below 2^53: Lua's numbers hold them exactly.
local seen = tonumber(redis.call('GET', KEYS[1]) or '0')
if tonumber(ARGV[1]) < seen then
  return {0, tostring(seen)}
end
redis.call('SET', KEYS[1], ARGV[1])
local reply = redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))
if type(reply) == 'table' then
  reply = reply.ok
end
return {1, reply}
