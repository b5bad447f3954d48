// The executable 07_pipeline_parallel under mpirun: ranks are processes.

#include <filesystem>

#include "tests/chapters/07_pipeline_parallel/long_training.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

class PipelineUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  PipelineUnderMpirun()
      : UnderMpirun("07_pipeline_parallel", ultra::test::Changes{{"--steps", "3"},
                                                                 {"--global-batch", "8"},
                                                                 {"--micro-batch", "1"},
                                                                 {"--layers", "4"}}) {}
};

TEST_F(PipelineUnderMpirun, AStageThatFailsEndsAllWithItsNameAndItsMicroBatch) {
  expect_refused(2,
                 ultra::test::words_of("--pp 2 --schedule afab --seq 64 --hidden 32 "
                                       "--device-memory 600kB"),
                 {"out of device memory", "stage 0 of 2", "forward pass of micro-batch"}, {});
}

/// A shell that starts its arguments, and kills the process of rank 1 some time after a file is
/// there.
ultra::test::Words killing_after(const std::string& file) {
  return {"sh", "-c",
          "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then (for i in $(seq 500); do [ -e '" + file +
              "' ] && break; sleep 0.05; done; sleep 0.2; kill -9 $$) & fi; exec \"$@\"",
          "sh"};
}

// Wherever the kill comes, even behind the end: the losses are those of one rank without a pause.
TEST_F(PipelineUnderMpirun, ATrainingThatWasKilledGoesOnInAnotherLayout) {
  const std::string saved = folder.path("saved");
  const std::string model = "--steps 400 --dtype f64 --global-batch 4 --seq 8 --warmup 2 ";
  static_cast<void>(start(2,
                          ultra::test::words_of(model +
                                                "--pp 2 --schedule zb-v --save-every 5 "
                                                "--checkpoint " +
                                                saved),
                          killing_after(saved + "/step-00000005")));
  ultra::test::expect_near_losses(
      losses(0, ultra::test::words_of(model + "--pp 2 --dp 2 --zero 2 --resume " + saved)),
      losses(0, ultra::test::words_of(model)), 1e-8);
}

// A process that is killed says nothing: the others say what they waited for. Steps are long, so
// that the kill comes between two of them in no more than one of some runs.
TEST_F(PipelineUnderMpirun, AStageThatIsKilledEndsAll) {
  const std::string saved = folder.path("saved");
  const std::string place = "[stage 0 of 2, ";
  std::string said;
  for (int attempt = 0; attempt < 5 && said.find(place) == std::string::npos; ++attempt) {
    const auto result =
        start(2,
              ultra::test::words_of("--pp 2 --steps 1000000 --warmup 0 --global-batch 2000 "
                                    "--save-every 1 --keep 1 --checkpoint " +
                                    saved),
              killing_after(saved));
    std::filesystem::remove_all(saved);
    EXPECT_NE(result.exit_code, 0);
    said = result.err;
    EXPECT_THAT(said, HasSubstr("was killed or left without a word"));
  }
  EXPECT_THAT(said, HasSubstr(place));
  EXPECT_THAT(said, HasSubstr("pass of micro-batch"));
}

/// A shell that starts its arguments, and stops them as a user does, so long after the moment at which
/// they catch the signal: in the mask of signals caught, SIGTERM is 0x4000.
ultra::test::Words stopping_after(std::chrono::milliseconds time) {
  return {"sh", "-c",
          fmt::format("(for i in $(seq 500); do"
                      " mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' /proc/$$/status);"
                      " [ $((0x$mask & 0x4000)) -ne 0 ] && break; sleep 0.02; done;"
                      " sleep {}; kill -TERM $$) & exec \"$@\"",
                      std::chrono::duration<double>(time).count()),
          "sh"};
}

TEST_F(PipelineUnderMpirun, ATrainingThatOutlivesItsTimeoutIsNoLongWait) {
  constexpr auto kStart = std::chrono::milliseconds(700);  // of MPI, before the training
  using namespace std::chrono_literals;
  // What processes add is how they wait, in any schedule; threads go through all of them.
  const std::vector<test::LongTraining> trainings = {
      {.schedule = "1f1b", .timeout = 500ms, .lasts = 2500ms},
      {.schedule = "zb-v", .timeout = 500ms, .lasts = 850ms}};
  test::expect_outlive_their_timeout(trainings, [&](const test::LongTraining& training) {
    return start(2, training.flags(), stopping_after(kStart + training.lasts));
  });
}

}  // namespace
}  // namespace ultra::pipeline_parallel
