// Checkpoints of processes under mpirun: they load into threads, and the other way round.
//
// Covers: chapters/04_zero/checkpoints/checkpointed_worker.hpp

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/support/programs/program.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using ultra::test::Words;

namespace fs = std::filesystem;

constexpr int kThreads = 0;  // no processes

class CheckpointsUnderMpirun : public test::UnderMpirun {
 protected:
  CheckpointsUnderMpirun() : UnderMpirun("04_zero", "5") {}

  [[nodiscard]] std::string saved(const std::string& name = "") const {
    return folder.path("all") + "/" + name;
  }

  [[nodiscard]] Words saving(Words flags) const {
    flags.insert(flags.end(), {"--dtype", "f64", "--checkpoint", saved(), "--save-every", "1"});
    return flags;
  }

  /// The losses in a checkpoint, loaded by threads that make no step.
  [[nodiscard]] json history_of(const std::string& name, std::size_t step) const {
    const std::string metrics = folder.path("metrics.jsonl");
    const auto loaded = test::run_program(
        "04_zero",
        test::flags(
            {{"--steps", std::to_string(step)}, {"--global-batch", "5"}, {"--micro-batch", "1"}},
            {"--dp", "2", "--zero", "1", "--dtype", "f64", "--metrics", metrics, "--resume",
             saved(name)}));
    EXPECT_EQ(loaded.exit_code, 0) << loaded.err;
    if (loaded.exit_code != 0) return {};
    return test::events_of(metrics).back().at("losses");
  }

  /// The losses of `processes` that go on from the second step; threads with --dp in the flags.
  [[nodiscard]] json resumed(int processes, Words flags) const {
    flags.insert(flags.end(), {"--dtype", "f64", "--resume", saved("step-00000002")});
    return losses(processes, flags);
  }
};

TEST_F(CheckpointsUnderMpirun, ThreadsSaveAndProcessesGoOn) {
  const json expected = losses(kThreads, saving({"--dp", "3", "--zero", "2"}));
  expect_near_losses(resumed(4, {"--zero", "3"}), expected, 1e-10);
  EXPECT_EQ(resumed(3, {"--zero", "2"}), expected) << "bitwise";
}

TEST_F(CheckpointsUnderMpirun, ProcessesSaveTheSameBytesAsThreads) {
  static_cast<void>(losses(4, saving({"--zero", "3"})));
  fs::rename(folder.path("all"), folder.path("processes"));
  static_cast<void>(losses(kThreads, saving({"--dp", "4", "--zero", "3"})));
  for (const auto& entry : fs::directory_iterator(saved("step-00000004"))) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors")) continue;  // the record has times
    EXPECT_TRUE(test::read_file(entry.path().string()) ==
                test::read_file(folder.path("processes") + "/step-00000004/" + name))
        << name;
  }
}

/// The process kills itself when it sees its second checkpoint, in a training that has no end.
TEST_F(CheckpointsUnderMpirun, AProcessThatIsKilledLeavesCompleteCheckpoints) {
  const Words flags =
      test::flags({{"--steps", "100000"}, {"--global-batch", "5"}, {"--micro-batch", "1"}},
                  saving({"--zero", "3"}));
  const std::string script = fmt::format(
      R"(if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then
           (until [ -e '{}' ]; do sleep 0.01; done; kill -KILL $$) &
         fi
         exec "$0" "$@")",
      saved("step-00000002"));
  Words words = {"/bin/sh", "-c", script, test::program_path("04_zero")};
  words.insert(words.end(), flags.begin(), flags.end());
  const auto result = test::run_with_mpirun(4, words, std::chrono::seconds(100));
  EXPECT_NE(result.exit_code, 0) << "one was killed: " << result.out;
  EXPECT_NE(result.exit_code, 124) << "the others wait for it: " << result.err;

  std::map<std::size_t, json> histories;
  for (const auto& entry : fs::directory_iterator(saved())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;
    const std::size_t step = std::stoul(name.substr(std::string("step-").size()));
    histories[step] = history_of(name, step);
    EXPECT_EQ(histories[step].size(), step);
  }
  ASSERT_GE(histories.size(), 2U);
  const json& all = histories.rbegin()->second;
  for (const auto& [step, losses] : histories) {
    EXPECT_TRUE(std::equal(losses.begin(), losses.end(), all.begin())) << "step " << step;
  }
}

}  // namespace
}  // namespace ultra::zero
