# SPDX-License-Identifier: Apache-2.0
"""From samples to findings: statistics, validity gates, one finding per trial.

``stats``     intervals and dispersion of plain numbers; knows nothing of trials
``gates``     what makes a sample doubtful; marks, never deletes
``findings``  groups samples by trial and applies the two above
``main_metric``  what a trial is compared by, as its experiment declares
``changes``     where a series changes its level
``pairing``     which trials of two runs are the same, wherever they ran
``conditions``  what was not the same where they ran
``comparison``  two runs: ratios, and which of them are differences
``series``      trials over many runs
``control``     A/A: how often they are wrong here
"""
