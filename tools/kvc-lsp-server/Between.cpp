//===- Between.cpp - a client and MLIR's language server -------------------===//
//
// MLIR's server is a function that reads standard input and writes standard output, and
// it knows no documentation of ops: that is not in a dialect's code. So it gets pipes as
// its input and output, and two threads stand between these and the client.
//
//===----------------------------------------------------------------------===//

#include "tools/kvc-lsp-server/Between.h"

#include "tools/kvc-lsp-server/Messages.h"
#include "tools/kvc-lsp-server/OpDocs.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>

using namespace llvm;

namespace {

/// Numbers of hovers that were asked for and not answered.
class Hovers {
public:
  void ask(const json::Value &id) {
    std::lock_guard lock(mutex);
    ids.insert(text(id));
  }
  bool answer(const json::Value &id) {
    std::lock_guard lock(mutex);
    return ids.erase(text(id)) != 0;
  }

private:
  std::mutex mutex;
  std::set<std::string> ids;
  static std::string text(const json::Value &id) {
    std::string text;
    raw_string_ostream(text) << id;
    return text;
  }
};

} // namespace

static std::string textOf(const json::Value &value) {
  std::string text;
  raw_string_ostream(text) << value;
  return text;
}

/// An object that is a message, or null.
static std::optional<json::Object> parsed(StringRef message) {
  Expected<json::Value> value = json::parse(message);
  if (!value) {
    consumeError(value.takeError());
    return std::nullopt;
  }
  json::Object *object = value->getAsObject();
  return object ? std::optional(std::move(*object)) : std::nullopt;
}

static void note(StringRef message, Hovers &hovers) {
  if (!message.contains("textDocument/hover"))
    return;
  std::optional<json::Object> request = parsed(message);
  if (!request || request->getString("method") != "textDocument/hover")
    return;
  if (const json::Value *id = request->get("id"))
    hovers.ask(*id);
}

/// The first word in quotes that is the name of a kvc op: hovers show ops in generic
/// form.
static StringRef opIn(StringRef hover) {
  StringRef rest = hover.split("\"kvc.").second;
  return rest.empty()
             ? ""
             : hover.drop_front(hover.find("\"kvc.") + 1).split('"').first;
}

static std::string withDocumentation(StringRef message, Hovers &hovers) {
  if (!message.contains("\"contents\""))
    return message.str();
  std::optional<json::Object> answer = parsed(message);
  const json::Value *id = answer ? answer->get("id") : nullptr;
  if (!id || !hovers.answer(*id))
    return message.str();
  json::Object *result = answer->getObject("result");
  json::Object *contents = result ? result->getObject("contents") : nullptr;
  std::optional<StringRef> shown =
      contents ? contents->getString("value") : std::nullopt;
  StringRef text = shown ? kvc::documentationOf(opIn(*shown)) : "";
  if (text.empty())
    return message.str();
  (*contents)["kind"] = "markdown";
  (*contents)["value"] = (text + "\n\n---\n\n" + *shown).str();
  return textOf(json::Value(std::move(*answer)));
}

int kvc::runBetween(function_ref<int()> server) {
  int in[2], out[2];
  std::FILE *client = nullptr, *toServer = nullptr, *fromServer = nullptr,
            *toClient = nullptr;
  int input = dup(0), output = dup(1);
  if (input < 0 || output < 0 || pipe(in) || pipe(out) || dup2(in[0], 0) < 0 ||
      dup2(out[1], 1) < 0 || !(client = fdopen(input, "r")) ||
      !(toClient = fdopen(output, "w")) || !(toServer = fdopen(in[1], "w")) ||
      !(fromServer = fdopen(out[0], "r"))) {
    errs() << "error: a server needs standard input, output and two pipes\n";
    return 1;
  }
  close(in[0]);
  close(out[1]);
  static Hovers hovers;
  std::thread asking([=] {
    while (std::optional<std::string> message = readMessage(client)) {
      note(*message, hovers);
      if (!writeMessage(toServer, *message))
        break;
    }
    // The server takes the end of its input for the client's.
    std::fclose(toServer);
  });
  std::thread answering([=] {
    while (std::optional<std::string> message = readMessage(fromServer))
      if (!writeMessage(toClient, withDocumentation(*message, hovers)))
        break;
  });
  int result = server();
  outs().flush();
  close(1);
  answering.join();
  // A client that says "exit" may leave its end open.
  asking.detach();
  _exit(result);
}
