//===- Report.cpp - results of an evaluation -----------------------------===//

#include "test/fuzz/Target.h"

#include "eval/report/Report.h"

using namespace kvc;

KVC_FUZZ_TARGET(report) {
  std::string path = fuzz::file(bytes, "results.json");
  std::string page = rt::formatReport({path, path});
  size_t data = page.find("id=\"data\"");
  if (data != std::string::npos && page.find("</script>", data) == page.npos)
    fuzz::fault("the page must end its data");
}
