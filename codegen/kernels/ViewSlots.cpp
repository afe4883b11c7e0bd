//===- ViewSlots.cpp - where the slots of a cache view lie ----------------===//

#include "codegen/kernels/ViewSlots.h"

using namespace mlir;
using namespace kvc;

void kvc::addParts(std::vector<std::string> &args, const std::string &stem,
                   std::initializer_list<const char *> parts) {
  for (const char *part : parts)
    if (!llvm::is_contained(args, stem + part))
      args.push_back(stem + part);
}

Expr kvc::numberOf(KernelBuilder &k, const std::string &name, Expr sequence,
                   Expr head) {
  Buffer numbers =
      k.buffer(name, {k.arg(name + "_batch"), k.arg(name + "_head")});
  return k.load(numbers, {sequence, head, k.index(0)}).toIndex();
}

void ViewSlots::addArgs(std::vector<std::string> &args,
                        const std::string &prefix, bool paged,
                        const std::string &side) {
  addParts(args, prefix + "slots", {""});
  addParts(args, prefix + "starts", {"", "_given", "_batch", "_head"});
  if (paged) {
    addParts(args, prefix + side,
             {"_page", "_table", "_table_batch", "_table_head"});
    addParts(args, prefix + "page", {"_bits", "_count"});
  }
}

Expr ViewSlots::given(Expr sequence, Expr head) const {
  return k.once(prefix + "given slot", {sequence, head}, [&] {
    return k.choose(
        arg("starts_given") > 0,
        [&] {
          return KernelBuilder::Values{
              numberOf(k, prefix + "starts", sequence, head)};
        },
        [&] { return KernelBuilder::Values{k.index(0)}; })[0];
  });
}

Expr ViewSlots::first(Expr sequence, Expr head) const {
  Expr said = given(sequence, head);
  return k.once(prefix + "first slot", {sequence, head, said},
                [&] { return said.max(k.index(0)).min(arg("slots")); });
}

Expr ViewSlots::page(const std::string &side, Expr sequence, Expr head,
                     Expr slot) const {
  std::string table = side + "_table";
  Buffer entries =
      k.buffer(prefix + table, {arg(table + "_batch"), arg(table + "_head")});
  Expr entry = slot.toI32() >> arg("page_bits").toI32();
  return k.load(entries, {sequence, head, entry.toIndex()});
}

Expr ViewSlots::hasPage(const std::string &side, Expr sequence, Expr head,
                        Expr slot) const {
  Expr number = page(side, sequence, head, slot);
  return (number >= k.i32(0)) & (number < arg("page_count").toI32());
}

Expr ViewSlots::place(const std::string &name, const char *row,
                      const std::string &side, Expr sequence, Expr head,
                      Expr slot, Expr element) const {
  Expr ofRow = arg(name + row), ofAll = head * arg(name + "_head");
  if (element.valid())
    ofAll = ofAll + element;
  if (!paged)
    return sequence * arg(name + "_batch") + slot * ofRow + ofAll;
  // Slots and pages are below 2^31, and a product of 32 bits by 32 is one instruction.
  Expr bits = arg("page_bits").toI32();
  Expr inPage = slot.toI32() & ((k.i32(1) << bits) - 1);
  Expr inside = page(side, sequence, head, slot)
                    .max(k.i32(0))
                    .min(arg("page_count").toI32() - 1);
  return inside.toIndex() * arg(name + "_page") +
         (inPage.toIndex() * ofRow + ofAll);
}

Expr ViewSlots::placeOfNumber(const std::string &name, Expr sequence, Expr head,
                              Expr slot) const {
  return place(name, "_row", "k", sequence, head, slot, Expr());
}
