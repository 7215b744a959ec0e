-- When was the room at its strongest, and what did it tap? The view goes to the months in which the room lived.
SELECT rank, moment, taps, top_emoji, top_taps, people
FROM peak_moments
WHERE code = 'KX7M2P' AND rank <= 5
ORDER BY rank;
