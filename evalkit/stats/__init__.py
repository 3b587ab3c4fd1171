"""Statistics of evaluations: pure functions, arrays in, a small named result out.

1. Nothing here reads a file, sets a seed or keeps state; randomness comes in as a `numpy.random.Generator`.
2. Every interval knows its clusters. Every undefined statistic is None or NaN, and an `Estimate` says why.
3. A missing value is the caller's business: NaN raises ValueError, and what is dropped is counted above this room.
"""

from evalkit.stats.attenuation import Attenuation, corrected_for_attenuation
from evalkit.stats.calibration import (
    Calibration,
    CrossFitted,
    Isotonic,
    cross_fitted_isotonic,
    fit_isotonic,
    fit_temperature,
    monotone_violation,
    preference_calibration,
)
from evalkit.stats.ceiling import Aggregate, Ceiling, HeldOut, accuracy, aggregate_labels, leave_one_annotator_out
from evalkit.stats.comparing import Test, adjust, mcnemar, perm_both, williams
from evalkit.stats.components import MissingShift, drop_one, missing_shifts, shapley, variance_shares, weighted_total
from evalkit.stats.conflicts import (
    Conflicts,
    Saturation,
    SignConsistency,
    conflict_matrix,
    saturation,
    sign_consistency,
)
from evalkit.stats.corrected import PredictionPowered, RoganGladen, prediction_powered_mean, rogan_gladen
from evalkit.stats.correlation import correlation, correlation_difference, influence, partial_correlation
from evalkit.stats.differences import auc_difference, grouped_difference, ordering_difference, within_difference
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.groups import GroupShares, design_effect, group_shares
from evalkit.stats.kappa import Classification, ClassScores, classification, cohen_kappa, unshared_labels
from evalkit.stats.length import (
    Control,
    LengthPreference,
    Matched,
    controlled_preference,
    controlled_win_rate,
    length_preference,
    matched_by_length,
)
from evalkit.stats.levels import (
    GroupedCorrelation,
    Shares,
    Stratified,
    Stratum,
    SystemCorrelation,
    TopShare,
    covariance_shares,
    grouped_correlation,
    restricted,
    sign_reversed,
    stratified_correlation,
    system_correlation,
    top_share_correlation,
    within_correlation,
)
from evalkit.stats.majority import maj_at_k
from evalkit.stats.means import cluster_mean, cluster_standard_error, independent_standard_error
from evalkit.stats.missing import Bounds, mean_bounds
from evalkit.stats.paired import Discordance, SignFlip, discordant_pairs, paired_difference, sign_flip_test
from evalkit.stats.pairwise import (
    Pairs,
    TieCalibration,
    acc_eq,
    auc,
    best_epsilon,
    ordering_accuracy,
    pairs_within,
    preference_accuracy,
    tie_calibration,
)
from evalkit.stats.passk import best_at_k, pass_at_k, pass_hat_k
from evalkit.stats.planning import expected_maximum, minimum_detectable_effect, selection_optimism
from evalkit.stats.raters import fleiss_kappa, icc, krippendorff_alpha
from evalkit.stats.repeats import Retest, retest, retest_sd
from evalkit.stats.replacing import AltTest, Replaced, alt_test
from evalkit.stats.tails import Modality, Tail, tail, unimodality
from evalkit.stats.trainers import best_with_replacement, openrlhf_max, skyrl_any, verl_best_at_k

__all__ = [
    "Aggregate",
    "AltTest",
    "Attenuation",
    "Calibration",
    "Ceiling",
    "Conflicts",
    "Control",
    "CrossFitted",
    "HeldOut",
    "Isotonic",
    "LengthPreference",
    "Matched",
    "MissingShift",
    "Modality",
    "PredictionPowered",
    "Replaced",
    "RoganGladen",
    "Saturation",
    "SignConsistency",
    "Tail",
    "accuracy",
    "aggregate_labels",
    "alt_test",
    "conflict_matrix",
    "controlled_preference",
    "controlled_win_rate",
    "corrected_for_attenuation",
    "cross_fitted_isotonic",
    "drop_one",
    "fit_isotonic",
    "fit_temperature",
    "leave_one_annotator_out",
    "length_preference",
    "matched_by_length",
    "missing_shifts",
    "monotone_violation",
    "prediction_powered_mean",
    "preference_calibration",
    "rogan_gladen",
    "saturation",
    "shapley",
    "sign_consistency",
    "tail",
    "unimodality",
    "variance_shares",
    "weighted_total",
    "GroupedCorrelation",
    "Shares",
    "Stratified",
    "Stratum",
    "SystemCorrelation",
    "TopShare",
    "covariance_shares",
    "grouped_correlation",
    "restricted",
    "sign_reversed",
    "stratified_correlation",
    "system_correlation",
    "top_share_correlation",
    "within_correlation",
    "within_difference",
    "Test",
    "adjust",
    "mcnemar",
    "perm_both",
    "williams",
    "ClassScores",
    "Classification",
    "classification",
    "cohen_kappa",
    "unshared_labels",
    "Pairs",
    "TieCalibration",
    "acc_eq",
    "auc",
    "auc_difference",
    "best_epsilon",
    "ordering_accuracy",
    "ordering_difference",
    "pairs_within",
    "preference_accuracy",
    "tie_calibration",
    "correlation",
    "correlation_difference",
    "influence",
    "partial_correlation",
    "Bounds",
    "Discordance",
    "Estimate",
    "GroupShares",
    "Retest",
    "SignFlip",
    "best_at_k",
    "best_with_replacement",
    "cluster_mean",
    "cluster_standard_error",
    "design_effect",
    "discordant_pairs",
    "expected_maximum",
    "fleiss_kappa",
    "group_shares",
    "grouped_difference",
    "icc",
    "independent_standard_error",
    "krippendorff_alpha",
    "maj_at_k",
    "mean_bounds",
    "minimum_detectable_effect",
    "openrlhf_max",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "retest",
    "retest_sd",
    "selection_optimism",
    "sign_flip_test",
    "skyrl_any",
    "undefined",
    "verl_best_at_k",
]
