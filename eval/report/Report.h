//===- Report.h - an evaluation as one page of HTML -----------------------===//

#ifndef KVC_EVAL_REPORT_REPORT_H
#define KVC_EVAL_REPORT_REPORT_H

#include <string>
#include <vector>

namespace kvc::rt {

/// The page of report.html with the results of `kvc-run eval` inside: scores
/// against budgets, where kept tokens lie, coverage, budgets and perturbation
/// by layer, time and bytes. Needs no network. Several files are one page where
/// model and budgets are the same; a task and question of two files is the
/// first's. Throws Failure.
std::string formatReport(const std::vector<std::string> &resultFiles);

} // namespace kvc::rt

#endif // KVC_EVAL_REPORT_REPORT_H
