"""Sources of batches: a source supplies blocks of rows, weighs the rows, and receives what was learned from them."""
