"""Rules: schedules, statistics, radii, eliminations and the algorithms made of them."""
