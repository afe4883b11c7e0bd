//===- ProfileAttentionCommand.cpp - kvc-run profile-attention ------------===//

#include "executor/eviction/ProfileAttention.h"
#include "tools/kvc-run/Commands.h"

void kvc::rt::addProfileAttention(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<AttentionProfileOptions>();
  auto rows = std::make_shared<std::vector<std::string>>();
  CLI::App *command = app.add_subcommand(
      "profile-attention", "Estimate what kvc_attend takes on a GPU");
  command
      ->add_option("--rows", *rows,
                   "Rows of a KV head on average, several with commas between")
      ->required()
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  auto number = [&](const char *name, uint32_t &value, const char *text,
                    uint64_t least, uint64_t most) {
    command->add_option(name, value, text)->check(wholeNumber(least, most));
  };
  number("--queries", options->queries,
         "Newest tokens of each sequence, 0: a whole prompt (1)", 0, 1 << 24);
  number("--batch", options->batch, "Sequences (1)", 1, 65535);
  number("--kv-heads", options->kvHeads, "KV heads (8)", 1, 1024);
  number("--group", options->group, "Query heads of a KV head (4)", 1, 1024);
  number("--head-dim", options->headDim, "Head size (128)", 1, 256);
  number("--skew", options->skew,
         "How many times the shortest head's rows the longest has (1)", 1,
         1024);
  command->add_option("--dtype", options->dtype, "f32, f16 or bf16 (bf16)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, kvc_dtype>{
          {"f32", KVC_F32}, {"f16", KVC_F16}, {"bf16", KVC_BF16}}));
  command
      ->add_option("--page", options->page,
                   "Slots of a page, 0: heads behind each other (0)")
      ->check(CLI::IsMember({0, 1, 2, 4, 8, 16, 32, 64, 128, 256}));
  command->add_option("--card", options->card, "h100, h200 or a100 (h100)")
      ->check(notEmpty);
  number("--blocks", options->blocks,
         "Blocks that run along each dimension of a grid, 0: all (6)", 0,
         1 << 20);
  command->add_option("--json", options->json, "File for the numbers")
      ->check(notEmpty);
  command->callback([=, &run] {
    for (const std::string &entry :
         splitList("--rows", *rows, wholeNumber(1, 1 << 24)))
      options->rows.push_back(uint32_t(std::stoul(entry)));
    run = [options] {
      profileAttention(*options);
      return 0;
    };
  });
}
