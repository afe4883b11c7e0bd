"""Second forms of kernels, which multiply by warpgroups (codegen/WarpgroupForms.h). PTX for sm_90a
has them under the names of the first ones, and all other kernels as PTX for sm_90 has them."""
import re

# Kernels say so in the policy's text at level gpu.
FORM_OF = re.compile(r'kvc\.warpgroups_of = "(\w+)"')
SUFFIX = "_warpgroups"
KERNEL = re.compile(r"^\.visible \.entry (\w+)\([\s\S]*?^\}\n", re.MULTILINE)


class Missing(ValueError):
    """PTX does not have a form."""


def kernels_with_forms(text):
    return FORM_OF.findall(text)


def only_forms(ptx, names):
    """The PTX without kernels that have no form; those that have are called what they are called
    at level gpu."""
    kept = set()

    def keep(kernel):
        if kernel[1] not in names:
            return ""
        kept.add(kernel[1])
        return kernel[0].replace(f".entry {kernel[1]}(", f".entry {kernel[1]}{SUFFIX}(", 1)

    found = KERNEL.sub(keep, ptx)
    if missing := sorted(set(names) - kept):
        raise Missing(f"PTX for sm_90a must have a form of {missing[0]}, it has none")
    return found
