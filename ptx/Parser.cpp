//===- Parser.cpp ---------------------------------------------------------===//

#include "ptx/Parser.h"

#include "ptx/Opcodes.h"
#include "ptx/Reconvergence.h"
#include "ptx/Scanner.h"
#include "ptx/Types.h"
#include "runtime/base/Failure.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <charconv>
#include <set>

using namespace kvc::ptx;
using kvc::rt::excerpt;
using kvc::rt::fail;
using kvc::rt::formatted;
using kvc::rt::mostSharedBytes;

namespace {

/// Rows of registers and specials are numbered from here while a kernel is
/// read, when nobody knows yet how many rows stand before them.
constexpr Row specialRows = 1u << 30, registerRows = 1u << 31;

std::optional<Opcode> findOpcode(Parts parts) {
  for (auto find :
       {findArithmetic, findConversion, findMemory, findAsyncCopy, findBulkCopy,
        findCollective, findWarpgroup, findCluster, findControl})
    if (std::optional<Opcode> found = find(parts))
      return found;
  return std::nullopt;
}

class Parser {
public:
  explicit Parser(std::string_view text) : tokens(scan(text)) {}

  Program program() {
    Program program;
    while (!peek().empty()) {
      if (accept(".version") || accept(".target")) {
        next();
        while (accept(","))
          next();
      } else if (accept(".address_size")) {
        if (number() != 64)
          throw unsupported("addresses must have 64 bits");
      } else if (accept(".file")) {
        skipLine();
      } else if (accept(".visible") || accept(".weak")) {
      } else if (accept(".extern")) {
        launchMemory();
      } else if (peek() == ".shared") {
        variable(moduleShared);
      } else if (accept(".entry")) {
        Kernel kernel = entry();
        program.kernels[kernel.name] = std::move(kernel);
      } else {
        throw unsupported(formatted("unknown directive '{}'", excerpt(peek())));
      }
    }
    return program;
  }

private:
  std::vector<Token> tokens;
  size_t position = 0;
  Kernel kernel;

  struct Variable {
    std::string name;
    uint32_t bytes, alignment;
  };
  std::vector<Variable> moduleShared;
  std::set<std::string> launchShared; // names of what launches give
  bool usesLaunchShared = false;      // the kernel
  using Names = std::unordered_map<std::string, Row>;
  std::vector<Names> scopes; // braces, the innermost last
  struct Family {
    Row first;
    uint32_t count;
  };
  std::unordered_map<std::string, Family> families;    // %r<7>
  std::unordered_map<std::string, uint64_t> addresses; // of variables
  std::unordered_map<std::string, uint32_t> labels, parameterNames;
  std::vector<std::pair<uint32_t, std::string>> branches;
  std::unordered_map<uint64_t, Row> constants;

  //===--------------------------------------------------------------------===//
  // Tokens
  //===--------------------------------------------------------------------===//

  std::string_view peek() const { return tokens[position].text; }
  uint32_t line() const { return tokens[position].line; }
  std::string_view next() {
    if (peek().empty())
      throw bad("must not end inside of a statement");
    return tokens[position++].text;
  }
  bool accept(std::string_view text) {
    if (peek() != text)
      return false;
    ++position;
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      throw bad(formatted("'{}' expected, got '{}'", text, excerpt(peek())));
  }
  void skipLine() {
    for (uint32_t start = line(); !peek().empty() && line() == start;)
      ++position;
  }
  kvc::rt::Failure bad(const std::string &message) const {
    return fail(KVC_BAD_ARTIFACT, "PTX line {}: {}", line(), message);
  }
  kvc::rt::Failure unsupported(const std::string &message) const {
    return fail(KVC_UNSUPPORTED, "PTX line {}: {}", line(), message);
  }

  int64_t number() {
    bool minus = accept("-");
    std::string_view text = next();
    uint64_t value = 0;
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X"))
      text.remove_prefix(2), base = 16;
    if (text.ends_with('U'))
      text.remove_suffix(1);
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size())
      throw bad(formatted("a number expected, got '{}'", excerpt(text)));
    return int64_t(minus ? 0 - value : value);
  }

  //===--------------------------------------------------------------------===//
  // Declarations
  //===--------------------------------------------------------------------===//

  /// .extern .shared .align 16 .b8 name[];
  void launchMemory() {
    if (!accept(".shared"))
      throw unsupported("nothing can be linked to the program, got .extern");
    if (accept(".align"))
      number();
    next(); // its type
    launchShared.insert(std::string(next()));
    for (const char *end : {"[", "]", ";"})
      expect(end);
  }

  /// .shared .align 16 .b8 name[4096];
  void variable(std::vector<Variable> &variables) {
    expect(".shared");
    uint32_t alignment = 0;
    if (accept(".align"))
      alignment = uint32_t(number());
    uint32_t bytes = bytesOf(next().substr(1));
    if (!bytes)
      throw unsupported("a variable's type must have 8 to 64 bits");
    std::string name(next());
    uint64_t count = 1;
    if (accept("[")) {
      count = uint64_t(number());
      expect("]");
    }
    expect(";");
    if (count > mostSharedBytes || count * bytes > mostSharedBytes)
      throw unsupported(formatted("a block has at most {} bytes of shared "
                                  "memory, got {} elements",
                                  mostSharedBytes, count));
    if (alignment > 1024 || (alignment & (alignment - 1)))
      throw bad(formatted("an alignment must be a power of 2 up to 1024, got "
                          "{}",
                          alignment));
    variables.push_back(
        {name, uint32_t(count * bytes), std::max(alignment, bytes)});
  }

  void place(const Variable &variable) {
    kernel.sharedBytes = (kernel.sharedBytes + variable.alignment - 1) /
                         variable.alignment * variable.alignment;
    addresses[variable.name] = kernel.sharedBytes;
    kernel.sharedBytes += variable.bytes;
    if (kernel.sharedBytes > mostSharedBytes)
      throw unsupported(formatted("a block has at most {} bytes of shared "
                                  "memory, got {}",
                                  mostSharedBytes, kernel.sharedBytes));
  }

  /// .param .u64 .ptr .global .align 1 name
  void parameter() {
    expect(".param");
    uint32_t bytes = 0, alignment = 0;
    while (peek().starts_with(".")) {
      std::string_view word = next();
      if (word == ".align")
        alignment = uint32_t(number());
      else if (word == ".ptr") { // what it points to is no matter of ours
        while (accept(".global") || accept(".shared") || accept(".const"))
          ;
        if (accept(".align"))
          number();
      } else
        bytes = bytesOf(word.substr(1));
    }
    std::string name(next());
    uint64_t count = 1;
    if (accept("[")) {
      count = uint64_t(number());
      expect("]");
    }
    constexpr uint64_t most = 32764; // bytes, PTX ISA 8.1
    if (!bytes || !count || count > most ||
        kernel.parameterBytes + bytes * count > most)
      throw unsupported(formatted("a kernel has 1 to {} bytes of parameters "
                                  "of 8 to 64 bits",
                                  most));
    uint32_t natural = bytes;
    bytes *= uint32_t(count);
    alignment = std::max(alignment, natural);
    uint32_t offset =
        (kernel.parameterBytes + alignment - 1) / alignment * alignment;
    kernel.parameters.push_back({offset, bytes});
    parameterNames[name] = offset;
    kernel.parameterBytes = offset + bytes;
  }

  /// .reg .b32 %r<12>;  .reg .b32 low, high;
  void registers() {
    next(); // the type: an instruction's own says how a register is read
    do {
      std::string name(next());
      uint32_t count = 1;
      bool numbered = accept("<");
      kernel.names.push_back({kernel.registers, name, numbered});
      if (numbered) {
        count = uint32_t(number());
        expect(">");
        families[name] = {kernel.registers, count};
      } else {
        scopes.back()[name] = registerRows + kernel.registers;
      }
      constexpr uint32_t most = 1 << 16;
      if (count > most || kernel.registers + count > most)
        throw unsupported(formatted("a kernel has at most {} registers, got "
                                    "{}",
                                    most, uint64_t(kernel.registers) + count));
      kernel.registers += count;
    } while (accept(","));
    expect(";");
  }

  //===--------------------------------------------------------------------===//
  // Operands
  //===--------------------------------------------------------------------===//

  Row constant(uint64_t value) {
    auto [found, isNew] =
        constants.try_emplace(value, Row(kernel.constants.size()));
    if (isNew)
      kernel.constants.push_back(value);
    return found->second;
  }

  std::optional<Row> special(std::string_view name) {
    static constexpr std::pair<std::string_view, Special> known[] = {
        {"%tid", Special::Tid},     {"%ntid", Special::Ntid},
        {"%ctaid", Special::Ctaid}, {"%nctaid", Special::Nctaid},
        {"%laneid", Special::Lane}, {"%warpid", Special::Warp}};
    size_t dot = name.find('.');
    std::string_view axis =
        dot == std::string_view::npos ? ".x" : name.substr(dot);
    for (auto [text, which] : known)
      if (name.substr(0, dot) == text &&
          (axis == ".x" || axis == ".y" || axis == ".z")) {
        std::pair entry(which, axis[1] - 'x');
        auto found =
            std::find(kernel.specials.begin(), kernel.specials.end(), entry);
        Row row = specialRows + Row(found - kernel.specials.begin());
        if (found == kernel.specials.end())
          kernel.specials.push_back(entry);
        return row;
      }
    return std::nullopt;
  }

  std::optional<Row> named(std::string_view name) {
    for (size_t i = scopes.size(); i--;)
      if (auto found = scopes[i].find(std::string(name));
          found != scopes[i].end())
        return found->second;
    size_t digits = name.find_last_not_of("0123456789") + 1;
    auto family = families.find(std::string(name.substr(0, digits)));
    uint32_t index = 0;
    if (family != families.end() && digits < name.size()) {
      std::from_chars(name.data() + digits, name.data() + name.size(), index);
      if (index < family->second.count)
        return registerRows + family->second.first + index;
    }
    return special(name);
  }

  /// Of a variable in shared memory. Those of the module take room in the kernels that
  /// name them; what launches give would lie behind all others.
  std::optional<uint64_t> addressOf(const std::string &name) {
    if (auto found = addresses.find(name); found != addresses.end())
      return found->second;
    for (const Variable &variable : moduleShared)
      if (variable.name == name) {
        place(variable);
        return addresses[name];
      }
    if (launchShared.count(name)) {
      usesLaunchShared = true;
      return 0;
    }
    return std::nullopt;
  }

  Operand operand() {
    Operand result;
    result.negated = accept("!");
    std::string_view text = peek();
    if (text == "-" || (!text.empty() && text[0] >= '0' && text[0] <= '9')) {
      if (text.starts_with("0f") || text.starts_with("0F") ||
          text.starts_with("0d") || text.starts_with("0D")) {
        uint64_t bits = 0;
        std::string_view digits = next().substr(2);
        auto [end, error] = std::from_chars(
            digits.data(), digits.data() + digits.size(), bits, 16);
        if (error != std::errc() || end != digits.data() + digits.size())
          throw bad(formatted("a number expected, got '{}'", excerpt(text)));
        result.row = constant(bits);
      } else {
        result.row = constant(uint64_t(number()));
      }
      return result;
    }
    std::string name(next());
    if (std::optional<Row> row = named(name)) {
      result.row = *row;
    } else if (std::optional<uint64_t> address = addressOf(name)) {
      result.row = constant(*address);
    } else if (auto offset = parameterNames.find(name);
               offset != parameterNames.end()) {
      result.row = constant(offset->second);
    } else if (name == "_") { // a result that nobody reads
      kernel.names.push_back({kernel.registers, name, false});
      result.row = registerRows + kernel.registers++;
    } else {
      throw unsupported(formatted("unknown operand '{}'", excerpt(name)));
    }
    return result;
  }

  /// One operand, or those in braces.
  void operands(std::vector<Operand> &found) {
    if (!accept("{")) {
      found.push_back(operand());
      return;
    }
    do
      found.push_back(operand());
    while (accept(","));
    expect("}");
  }

  /// [%rd1+16]  [%rd1, {%r1, %r2}]: with coordinates in a tensor
  void address(std::vector<Operand> &found) {
    expect("[");
    Operand result = operand();
    if (accept("+"))
      result.offset = number();
    found.push_back(result);
    if (accept(","))
      operands(found);
    expect("]");
  }

  //===--------------------------------------------------------------------===//
  // Statements
  //===--------------------------------------------------------------------===//

  static std::string text(Count count) {
    return count.least == count.most
               ? std::to_string(count.least)
               : formatted("{} {} {}", count.least, count.between ? "to" : "or",
                           count.most);
  }

  void instruction() {
    Instruction result;
    result.line = line();
    if (accept("@")) {
      result.guarded = true;
      result.guard = operand();
    }
    result.opcode = next();
    std::vector<std::string_view> parts;
    for (std::string_view rest = result.opcode; !rest.empty();) {
      size_t dot = rest.find('.');
      parts.push_back(rest.substr(0, dot));
      rest = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    }
    std::optional<Opcode> opcode = findOpcode(parts);
    if (!opcode)
      throw fail(KVC_UNSUPPORTED,
                 "PTX line {}: the machine does not know the opcode '{}'",
                 result.line, excerpt(result.opcode));
    result.run = opcode->body.run;
    result.flow = opcode->flow;
    result.keeps = opcode->keeps;
    result.cost = costOf(parts);
    if (result.flow == Flow::Branch) {
      branches.push_back({uint32_t(kernel.code.size()), std::string(next())});
    } else if (peek() != ";") {
      int results = opcode->results.most ? 1 : 0;
      do {
        if (peek() == "[") {
          address(result.operands);
          continue;
        }
        std::vector<Operand> group;
        operands(group);
        if (accept("|")) // the second predicate of setp, shfl's
          group.push_back(operand());
        for (const Operand &one : group)
          if (results > 0)
            result.results.push_back(one.row);
          else
            result.operands.push_back(one);
        --results;
      } while (accept(","));
    }
    expect(";");
    if (!opcode->results.has(result.results.size()) ||
        !opcode->body.operands.has(result.operands.size()))
      throw bad(formatted("'{}' has {} results and {} operands, got {} and {}",
                          excerpt(result.opcode), text(opcode->results),
                          text(opcode->body.operands), result.results.size(),
                          result.operands.size()));
    for (const Operand &one : result.operands)
      if (one.negated && !opcode->negates)
        throw bad(
            formatted("'{}' has no negated operand", excerpt(result.opcode)));
    for (Row row : result.results)
      if (row < registerRows)
        throw bad(formatted("the result of '{}' must be a register",
                            excerpt(result.opcode)));
    // What has constants alone is one, too.
    if (result.cost.unit == Unit::Integer && !result.operands.empty() &&
        std::ranges::all_of(result.operands, [](const Operand &one) {
          return one.row < specialRows;
        }))
      result.cost.issues = 0;
    kernel.keeps |= result.keeps;
    kernel.waits |= result.opcode == "griddepcontrol.wait";
    kernel.code.push_back(std::move(result));
  }

  void body() {
    expect("{");
    scopes.assign(1, {});
    while (true) {
      if (accept("{")) {
        scopes.emplace_back();
      } else if (accept("}")) {
        scopes.pop_back();
        if (scopes.empty())
          return;
      } else if (accept(".reg")) {
        registers();
      } else if (peek() == ".shared") {
        std::vector<Variable> own;
        variable(own);
        place(own.front());
      } else if (accept(".pragma")) {
        next();
        expect(";");
      } else if (accept(".loc")) {
        skipLine();
      } else if (peek().starts_with(".")) {
        throw unsupported(formatted("unknown directive '{}'", excerpt(peek())));
      } else if (tokens[position + (peek().empty() ? 0 : 1)].text == ":") {
        if (!labels.try_emplace(std::string(next()), kernel.code.size()).second)
          throw bad("a label must stand once");
        expect(":");
      } else {
        instruction();
      }
    }
  }

  Kernel entry() {
    kernel = {};
    usesLaunchShared = false;
    families.clear(), addresses.clear(), labels.clear(), branches.clear();
    parameterNames.clear(), constants.clear();
    kernel.name = next();
    if (accept("(") && !accept(")")) {
      do
        parameter();
      while (accept(","));
      expect(")");
    }
    while (peek() != "{") {
      std::string_view directive = next();
      if (directive == ".explicitcluster") // .reqnctapercluster follows
        continue;
      if (directive == ".reqnctapercluster") {
        cluster();
        continue;
      }
      if (directive != ".maxntid" && directive != ".reqntid" &&
          directive != ".minnctapersm" && directive != ".maxnreg")
        throw unsupported(
            formatted("unknown directive '{}'", excerpt(directive)));
      int64_t value = number();
      while (accept(","))
        value *= number();
      if (directive == ".maxntid" || directive == ".reqntid")
        kernel.maxThreads = uint32_t(value);
    }
    body();
    finish();
    return std::move(kernel);
  }

  void cluster() {
    uint64_t blocks = 1;
    size_t dimension = 0;
    do {
      int64_t extent = number();
      // Of each alone first: their product is of 64 bits.
      if (dimension == 3 || extent < 1 || extent > mostBlocksOfCluster ||
          (blocks *= uint64_t(extent)) > mostBlocksOfCluster)
        throw unsupported(
            formatted("a cluster must have three dimensions and 1 to {} blocks",
                      mostBlocksOfCluster));
      kernel.cluster[dimension++] = uint32_t(extent);
    } while (accept(","));
  }

  /// Numbers the rows and finds the branches' targets.
  void finish() {
    for (auto &[at, name] : branches) {
      auto label = labels.find(name);
      if (label == labels.end())
        throw bad(formatted("'{}' branches to '{}', which is no label",
                            kernel.name, excerpt(name)));
      kernel.code[at].target = label->second;
    }
    Row firstSpecial = Row(kernel.constants.size());
    Row firstRegister = firstSpecial + Row(kernel.specials.size());
    auto renumber = [&](Row &row) {
      if (row >= registerRows)
        row += firstRegister - registerRows;
      else if (row >= specialRows)
        row += firstSpecial - specialRows;
    };
    for (Instruction &instruction : kernel.code) {
      renumber(instruction.guard.row);
      for (Row &row : instruction.results)
        renumber(row);
      for (Operand &operand : instruction.operands)
        renumber(operand.row);
    }
    if (usesLaunchShared && kernel.sharedBytes)
      throw unsupported(formatted(
          "what a launch gives must be a kernel's only shared memory, '{}' has "
          "{} bytes of its own",
          kernel.name, kernel.sharedBytes));
    // A kernel ends by ret; a text that does not would run past its end.
    if (kernel.code.empty() || kernel.code.back().flow == Flow::Next ||
        kernel.code.back().guarded)
      throw bad(formatted("'{}' must end in ret or bra", kernel.name));
    findJoins(kernel);
  }
};

} // namespace

std::string Kernel::nameOf(Row row) const {
  uint32_t index = row - uint32_t(constants.size() + specials.size());
  auto behind = std::upper_bound(
      names.begin(), names.end(), index,
      [](uint32_t index, const Name &name) { return index < name.first; });
  const Name &name = behind[-1];
  return name.numbered ? name.text + std::to_string(index - name.first)
                       : name.text;
}

Program kvc::ptx::parse(std::string_view text) {
  return Parser(text).program();
}
