-- What did the room tap?
SELECT key, emoji, taps, share_percent
FROM reaction_mix
WHERE code = 'KX7M2P'
ORDER BY taps DESC;
