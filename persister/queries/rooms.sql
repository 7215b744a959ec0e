-- Which rooms were there, how much were they tapped, how many came?
SELECT code, title, taps, people_most, first_tap_at, last_tap_at
FROM room_summary
ORDER BY first_tap_at;
