"""Where batches come from: a source gives blocks of rows, weighs them, and takes back what was learned from them."""
