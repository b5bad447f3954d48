// Every flag of the chapters' trainers with every odd value: accepted, or refused in one short line
// that names the flag; never an internal error, whatever is asked for instead of training.
#include <CLI/CLI.hpp>

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "common/train/cli/program.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/programs/odd_values.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::composition {
namespace {

/// Those of the last program, which has the flags of all before it.
train::Techniques all_techniques() {
  return train::list_of(memory::technique(), collectives::technique(), data_parallel::technique(),
                        zero::technique(), zero::checkpoints(), zero::offload(),
                        tensor_parallel::technique());
}

/// The flags that take a value.
std::vector<std::string> all_flags() {
  CLI::App app;
  train::Setup setup;
  setup.techniques = all_techniques();
  setup.train.add_to(app);
  for (const auto& technique : setup.techniques) technique->add_flags(app, setup);
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    // get_name() of a flag that --help does not show is empty.
    if (option->get_items_expected_max() > 0) flags.push_back("--" + option->get_lnames().front());
  }
  return flags;
}

/// What is asked for; in each the flags that belong to it have a meaning. The answers are given, a
/// training ends behind its checks.
const std::vector<std::string> kQuestions = {"",
                                             "--zero 3 --dp 2",
                                             "--zero 3 --dp 4 --zero++ hierarchical --node-size 2",
                                             "--zero 1 --dp 2 --offload optimizer",
                                             "--tp 2 --dp 2",
                                             "--dp 2 --compress topk:0.1",
                                             "--checkpoint /nowhere/run",
                                             "--recompute full",
                                             "--on dgx-h100",
                                             "--model llama-1b --dp 4 --on dgx-h100",
                                             "--dp 4 --tp 2 --on dgx-h100",
                                             "--simulate h100 --simulate-sizes 1KB",
                                             "--op all_reduce",
                                             "--shapes table"};

class FlagValues : public ::testing::TestWithParam<std::string> {
 protected:
  /// Runs the program; expects success, or a refusal for which the flag is to blame.
  static void expect_accepted_or_refused(const std::string& flag, const std::string& value) {
    std::vector<std::string> words = test::words_of("program --print-ranks " + GetParam());
    const auto given = std::ranges::find(words, flag);
    if (given != words.end()) words.erase(given, given + 2);
    words.insert(words.end(), {flag, value});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStderr();
    int exit_code = 0;
    static_cast<void>(test::printed_by([&] {
      exit_code = train::run_techniques("program", "", all_techniques,
                                        static_cast<int>(argv.size()), argv.data());
    }));
    const std::string message = ::testing::internal::GetCapturedStderr();
    if (exit_code == train::kExitOk) return;
    EXPECT_EQ(exit_code, train::kExitBadInput) << message.substr(0, 300);
    // A flag of the question may be the one that has no meaning with this value.
    const auto to_blame = std::ranges::find_if(words, [&](const std::string& word) {
      return word.starts_with("--") && message.find(word) != std::string::npos;
    });
    test::expect_good_refusal(message.substr(0, message.size() - 1),
                              to_blame == words.end() ? flag : *to_blame);
  }
};

TEST_P(FlagValues, AreAcceptedOrRefusedByName) {
  for (const std::string& flag : all_flags()) {
    for (const std::string& value : test::odd_values()) {
      SCOPED_TRACE(flag + " " + value.substr(0, 30));
      expect_accepted_or_refused(flag, value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Questions, FlagValues, ::testing::ValuesIn(kQuestions));

}  // namespace
}  // namespace ultra::composition
