"""The factors of a row's weight in the loss: importance weights, and corrections for the bias of event tables."""
