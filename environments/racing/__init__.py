"""A racing simulation: the paper's slingshot pass and time trial (A.3), with cars, courses and a built-in driver of our own."""
