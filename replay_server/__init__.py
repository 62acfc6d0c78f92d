"""What all processes of a run share (`contract`), and the process that serves it (`process`)."""
