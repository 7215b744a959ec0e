-- A keynote of half an hour to try the worked queries on: run it in a database that a persister has set up (not where
-- these two codes are in use), then
-- each NAME.sql gives NAME.txt. It is made by arithmetic, so that it is the same everywhere. All or nothing of it is stored.

BEGIN;

-- A persister makes partitions for the days to come only.
CREATE TABLE IF NOT EXISTS taps_2026_05_12 PARTITION OF taps FOR VALUES FROM ('2026-05-12Z') TO ('2026-05-13Z');
CREATE TABLE IF NOT EXISTS taps_2026_05_13 PARTITION OF taps FOR VALUES FROM ('2026-05-13Z') TO ('2026-05-14Z');
CREATE TABLE IF NOT EXISTS tap_counts_2026_05 PARTITION OF tap_counts FOR VALUES FROM ('2026-05-01Z') TO ('2026-06-01Z');
CREATE TABLE IF NOT EXISTS audience_counts_2026_05 PARTITION OF audience_counts FOR VALUES FROM ('2026-05-01Z') TO ('2026-06-01Z');

INSERT INTO rooms (code, created_at, title, state, cooldown_ms, version, first_tap_at, last_tap_at) VALUES
    ('KX7M2P', '2026-05-12 08:45Z', 'Opening keynote', 'closed', 1000, 3, '2026-05-12 09:00:00Z', '2026-05-12 09:29:59Z'),
    ('W3TT5R', '2026-05-13 12:45Z', 'Lightning talks', 'closed', 1000, 2, '2026-05-13 13:00:00Z', '2026-05-13 13:09:59Z');

INSERT INTO reactions (room_id, reaction_id, key, emoji, label, position)
SELECT room_id, reaction_id, key, emoji, label, reaction_id - 1
FROM rooms, (VALUES (1::smallint, 'clap', '👏', 'Applause'), (2, 'heart', '❤️', 'Love it'), (3, 'laugh', '😂', 'Funny'))
     AS palette (reaction_id, key, emoji, label)
WHERE code IN ('KX7M2P', 'W3TT5R');

-- Each second a few of the people tap, who grow in number; there is applause at the start and at the end, and a joke after eleven minutes.
INSERT INTO taps (tapped_at, client, room_id, reaction_id)
SELECT r.first_tap_at + s * interval '1 second', (s * 7 + n * 13) % (120 + s / 20), r.room_id,
       CASE WHEN s BETWEEN 660 AND 679 AND n > 2 THEN 3 WHEN (s + n) % 5 = 0 THEN 2 ELSE 1 END
FROM rooms r,
     LATERAL generate_series(0, extract(epoch FROM r.last_tap_at - r.first_tap_at)::integer) s,
     LATERAL generate_series(1, CASE WHEN s < 30 THEN 12 WHEN s BETWEEN 660 AND 679 THEN 20 WHEN s > 1770 THEN 30 ELSE 2 END) n
WHERE r.code IN ('KX7M2P', 'W3TT5R');

INSERT INTO tap_counts (room_id, second, reaction_id, taps, tappers, unrecorded)
SELECT room_id, date_trunc('second', tapped_at), reaction_id, count(*), count(DISTINCT client), 0
FROM taps JOIN rooms USING (room_id)
WHERE code IN ('KX7M2P', 'W3TT5R')
GROUP BY 1, 2, 3;

INSERT INTO audience_counts (room_id, slot, people)
SELECT room_id, slot, 200 + extract(minute FROM slot)::integer
FROM rooms, generate_series(first_tap_at, last_tap_at, interval '10 seconds') slot
WHERE code IN ('KX7M2P', 'W3TT5R');

COMMIT;
