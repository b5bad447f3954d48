// A training on a device with streams: the CPU's numbers, and nothing within a step that waits.

#include <map>
#include <nlohmann/json.hpp>

#include "common/gpu/streams.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

DeviceKind device_with_streams() {
  const DeviceKind kind = test::device_kind_of_tests();
  return has_streams(kind) ? kind : DeviceKind::kEmulated;
}

class DeviceTraining : public test::RandomTest {
 protected:
  static TrainOptions options(DType dtype, std::size_t steps) {
    TrainOptions options = test::short_run();
    options.dtype = dtype;
    options.steps = steps;
    return options;
  }

  static void expect_equal(TrainOptions options, double tolerance) {
    const TrainResult expected = test::train_quietly(options);
    options.device = device_with_streams();
    const TrainResult found = test::train_quietly(options);
    ASSERT_EQ(found.steps.size(), expected.steps.size());
    for (std::size_t i = 0; i < found.steps.size(); ++i) {
      const StepMetrics& e = expected.steps[i];
      const StepMetrics& f = found.steps[i];
      EXPECT_NEAR(f.loss, e.loss, tolerance * e.loss) << "step " << e.step;
      EXPECT_NEAR(f.grad_norm, e.grad_norm, 10 * tolerance * e.grad_norm) << "step " << e.step;
      EXPECT_EQ(f.validation_loss.has_value(), e.validation_loss.has_value());
      if (!e.validation_loss) continue;
      EXPECT_NEAR(*f.validation_loss, *e.validation_loss, tolerance * e.loss);
    }
  }
};

TEST_F(DeviceTraining, InF32HasTheCpusLossesOverTwentySteps) {
  expect_equal(options(DType::kF32, 20), 1e-4);
}

TEST_F(DeviceTraining, OfDrawnModelsHasTheCpusNumbers) {
  for (int round = 0; round < 3; ++round) {
    TrainOptions drawn = options(DType::kF64, 2);
    const std::size_t kv_heads = random.between(1, 2);
    const std::size_t heads = kv_heads * random.between(1, 2);
    drawn.model = {.vocab_size = 256,
                   .hidden_size = heads * 2 * random.between(1, 4),
                   .num_layers = random.between(1, 2),
                   .num_heads = heads,
                   .num_kv_heads = kv_heads,
                   .ffn_hidden_size = random.between(1, 30),
                   .max_seq_len = random.between(1, 20),
                   .tied_embeddings = random.between(0, 1) == 1,
                   .mtp = random.between(0, 1) == 1};
    drawn.global_batch = 3;
    drawn.micro_batch = random.pick<std::size_t>({1, 3});
    drawn.val_data = test::kText;
    drawn.val_batches = 1;
    expect_equal(drawn, 1e-10);
  }
}

TEST_F(DeviceTraining, TheHostWaitsOncePerStep) {
  TrainOptions of_device = options(DType::kF32, 5);
  of_device.device = device_with_streams();
  std::vector<std::uint64_t> waits;
  const auto count = test::before_each_step([&](const StepPlan&, const ModelScope& scope) {
    waits.push_back(scope.context.device.streams().synchronizations());
  });
  static_cast<void>(test::train_quietly(of_device, count));
  ASSERT_EQ(waits.size(), 5U);
  for (std::size_t i = 1; i < waits.size(); ++i) {
    EXPECT_EQ(waits[i] - waits[i - 1], 1U) << "for the loss and the norm, together; step " << i;
  }
}

TEST_F(DeviceTraining, TakesNoMoreMemoryFromTheSystemAfterTheFirstSteps) {
  TrainOptions of_device = options(DType::kF32, 6);
  of_device.device = device_with_streams();
  std::vector<std::size_t> allocations;
  const auto count = test::before_each_step([&](const StepPlan&, const ModelScope& scope) {
    allocations.push_back(scope.context.device.system_allocations());
  });
  static_cast<void>(test::train_quietly(of_device, count));
  EXPECT_EQ(allocations.at(5), allocations.at(2));
}

TEST_F(DeviceTraining, CountsWhatAModelTakesAsTheCpuDoes) {
  TrainOptions run = options(DType::kF32, 2);
  const TrainResult on_cpu = test::train_quietly(run);
  run.device = device_with_streams();
  const TrainResult on_device = test::train_quietly(run);
  for (const MemoryCategory category : {MemoryCategory::kParameters, MemoryCategory::kGradients,
                                        MemoryCategory::kOptimizer, MemoryCategory::kActivations}) {
    EXPECT_EQ(on_device.ranks[0].memory.peak(category).bytes,
              on_cpu.ranks[0].memory.peak(category).bytes)
        << to_string(category);
  }
  EXPECT_EQ(on_cpu.ranks[0].device, "");
  EXPECT_NE(on_device.ranks[0].device, "");
}

TEST_F(DeviceTraining, MemoryThatIsNotThereIsRefusedInWords) {
  TrainOptions run = options(DType::kF32, 2);
  run.device = device_with_streams();
  run.device_memory = 100'000;
  const std::string message =
      test::message_of<OutOfMemory>([&] { static_cast<void>(test::train_quietly(run)); });
  EXPECT_THAT(message, HasSubstr("out of device memory"));
  EXPECT_THAT(message, HasSubstr("parameters"));
}

TEST_F(DeviceTraining, TheTraceShowsTheStreams) {
  const test::TemporaryFolder folder;
  TrainOptions run = options(DType::kF32, 3);
  run.device = device_with_streams();
  run.trace = folder.path("trace.json");
  run.trace_steps = 2;
  static_cast<void>(test::train_quietly(run));
  const auto trace = nlohmann::json::parse(test::read_file(run.trace));
  int compute = -1;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name" && event.at("args").at("name") == "compute stream") {
      compute = event.at("tid");
    }
  }
  ASSERT_GE(compute, 0);
  std::map<std::string, int> operations;
  double last_end = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("tid") != compute) continue;
    ++operations[event.at("name")];
    EXPECT_GE(event.at("ts").get<double>(), last_end - 1e-3) << "one after the other";
    last_end = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  const TrainOptions& o = run;
  const int passes = static_cast<int>(2 * o.global_batch / o.micro_batch);
  EXPECT_EQ(operations["rms_norm"], passes * static_cast<int>(2 * o.model.num_layers + 1));
  EXPECT_EQ(operations["attention"], passes * static_cast<int>(o.model.num_layers));
  EXPECT_GT(operations["upload"], 0);
}

}  // namespace
}  // namespace ultra::train
