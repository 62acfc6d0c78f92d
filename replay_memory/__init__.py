"""The learner's own replay memory: rows, tables, episodes and priorities in arrays, and the file that keeps the rows."""
