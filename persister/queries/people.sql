-- How many different people tapped, and how often each? Only the days of the range are read.
SELECT date_bin('10 minutes', t.tapped_at, 'epoch') AS from_time,
       count(*) AS taps,
       count(DISTINCT t.client) AS people,
       round(count(*)::numeric / count(DISTINCT t.client), 1) AS taps_each
FROM taps t
JOIN rooms r ON r.room_id = t.room_id
WHERE r.code = 'KX7M2P'
  AND t.tapped_at >= '2026-05-12 09:00Z' AND t.tapped_at < '2026-05-12 09:30Z'
GROUP BY from_time
ORDER BY from_time;
