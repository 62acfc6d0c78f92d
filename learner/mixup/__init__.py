"""What drawn rows become before they are learned from (NMER, Section 5)."""
