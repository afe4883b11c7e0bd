//===- Results.h - means, errors and the table of an evaluation -----------===//

#ifndef KVC_EVAL_RESULTS_H
#define KVC_EVAL_RESULTS_H

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace kvc::rt {

/// The results file: the setup and
///   "scores": per task, mode, policy and budget: n, mean, its standard error;
///             for texts the perplexity and the error of its logarithm
///   "costs":  per policy and budget: mean bytes of the cache, seconds
///   "layers": per policy and budget, means over the detailed prompts: per
///   layer
///             retention, budgets, coverage, perturbation (Details.h)
///   "samples": per prompt the scores and predictions
nlohmann::json summarise(const nlohmann::json &setup,
                         const std::map<std::string, nlohmann::json> &records);

} // namespace kvc::rt

#endif // KVC_EVAL_RESULTS_H
