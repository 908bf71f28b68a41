"""Presentation: charts as values, drawn for print and for pages; tables; one page around them."""
