"""The paper, reproduced: every figure, table and claim, on one page."""
