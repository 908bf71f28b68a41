"""Planning: what a comparison of arms will need, before anything is run.

`detection` answers by formula which gaps can be told apart at all, `search` looks for the schedules
with the least regret by simulating hundreds of them, `plan` puts both together, and the rest says
it in words and pictures.
"""
