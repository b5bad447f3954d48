// What a program says of a machine that is not here.
//
// Covers: common/train/elsewhere/elsewhere.hpp
// Covers: common/train/elsewhere/on_report.hpp
// Covers: common/train/elsewhere/on_option.hpp

#include "common/train/elsewhere/elsewhere.hpp"

#include <nlohmann/json.hpp>

#include "common/nn/layer_factory.hpp"
#include "common/nn/transformer_block.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/elsewhere/on_option.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"

namespace ultra::train {
namespace {

using nlohmann::json;
using test::words_of;

constexpr std::size_t kLayers = 3;
constexpr std::size_t kHidden = 64;
constexpr std::size_t kFfn = 128;
constexpr std::size_t kVocab = 96;
constexpr std::size_t kSeq = 32;
constexpr std::size_t kBatch = 4;

const std::string kModel =
    "--layers 3 --hidden 64 --heads 4 --kv-heads 2 --ffn 128 --vocab 96 --seq 32 "
    "--global-batch 4 ";

Setup setup_of(const std::string& flags) {
  const bool cuts = flags.find("--micro-batch") != std::string::npos;
  return parse_setup(list_of(test::plain_training()),
                     words_of(kModel + flags + (cuts ? "" : " --micro-batch 2")));
}

json answer_of(const std::string& flags) {
  return json::parse(report_on_machine(setup_of(flags + " --on-json")));
}

/// Weights of the blocks' matrices: q and o, k and v, and three of the feed-forward part.
constexpr std::size_t kMatrices =
    kLayers * (2 * kHidden * kHidden + 2 * kHidden * kHidden / 2 + 3 * kHidden * kFfn);
constexpr std::size_t kAllWeights = kMatrices + 2 * kVocab * kHidden + (2 * kLayers + 1) * kHidden;

TEST(Elsewhere, KeepsTwoBytesOfAWeightFourOfItsGradientAndTwelveForTheOptimizer) {
  const json memory = answer_of("--on dgx-h100")["memory"][0];
  EXPECT_EQ(memory["rank"], 0);
  // At the peak of the passes the optimizer's states are there, and all gradients but those of the
  // blocks to come.
  EXPECT_EQ(memory["bytes"]["parameters"], 2 * kAllWeights);
  EXPECT_EQ(memory["bytes"]["optimizer"], 12 * kAllWeights);
  EXPECT_LE(memory["bytes"]["gradients"], 4 * kAllWeights);
  const json wide = answer_of("--on dgx-h100 --dtype f64")["memory"][0];
  EXPECT_EQ(wide["bytes"]["parameters"], 8 * kAllWeights);
  EXPECT_EQ(wide["bytes"]["optimizer"], 16 * kAllWeights);
}

TEST(Elsewhere, CountsSixOperationsAWeightAndTokenAndThoseOfAttention) {
  const json report = answer_of("--on dgx-h100");
  const double tokens = kBatch * kSeq;
  // A query sees itself and those before it: a product of scores and one of values, three times.
  const double pairs = kBatch * kSeq * (kSeq + 1) / 2.0;
  const double attention = 3 * kLayers * 2 * 2 * kHidden * pairs;
  EXPECT_EQ(report["tokens"], tokens);
  EXPECT_EQ(report["flop"], 6 * (kMatrices + kVocab * kHidden) * tokens + attention);
}

TEST(Elsewhere, TakesAsLongAsItsParts) {
  const json report = answer_of("--on dgx-h100,straggler=0");
  double parts = 0;
  for (const char* part : {"products", "attention", "elementwise", "update", "waits_for_the_host",
                           "waits_for_stages", "waits_for_streams"}) {
    parts += report[part].get<double>();
  }
  EXPECT_NEAR(report["seconds"].get<double>(), parts, 1e-9 * parts)
      << "a rank alone has no exchange";
}

/// A norm more in front of each feed-forward part: a layer that nobody but this test knows.
class FurtherNorms : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;
  std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                          std::size_t layer) override {
    std::vector<std::unique_ptr<nn::Layer>> layers;
    layers.push_back(inner().norm(context, {"further." + std::to_string(layer) + ".weight"}));
    layers.push_back(inner().feed_forward(context, layer));
    return std::make_unique<nn::Sequential>(std::move(layers));
  }
};

class FurtherNormsTechnique : public Technique {
  void wrap_layers(FactoryStack& factories, const Plan&, const Setup&) const override {
    factories.push_back(std::make_unique<FurtherNorms>(*factories.back()));
  }
};

TEST(Elsewhere, KnowsALayerOnTheDayItIsWritten) {
  const std::string flags = kModel + "--micro-batch 2 --on dgx-h100 --on-json";
  const json plain =
      json::parse(report_on_machine(parse_setup(list_of(test::plain_training()), words_of(flags))));
  const json more = json::parse(report_on_machine(
      parse_setup(list_of(test::plain_training(), std::make_unique<FurtherNormsTechnique>()),
                  words_of(flags))));
  const auto bytes = [](const json& report, const char* category) {
    return report["memory"][0]["bytes"][category].get<std::size_t>();
  };
  EXPECT_EQ(bytes(more, "parameters") - bytes(plain, "parameters"), 2 * kLayers * kHidden);
  EXPECT_EQ(bytes(more, "optimizer") - bytes(plain, "optimizer"), 12 * kLayers * kHidden);
  EXPECT_GT(bytes(more, "activations"), bytes(plain, "activations"));
  EXPECT_GT(more["elementwise"], plain["elementwise"]);
  EXPECT_EQ(more["flop"], plain["flop"]) << "a norm is no product";
}

TEST(Elsewhere, TwoRecordsAreEqual) {
  const train::Setup setup = setup_of("--on dgx-h100");
  const RecordedRank one = record_step(setup, 0);
  const RecordedRank other = record_step(setup, 0);
  ASSERT_EQ(one.tape->entries.size(), other.tape->entries.size());
  for (std::size_t i = 0; i < one.tape->entries.size(); ++i) {
    ASSERT_EQ(one.tape->entries[i].kind, other.tape->entries[i].kind) << i;
    ASSERT_EQ(one.tape->entries[i].index, other.tape->entries[i].index) << i;
  }
  EXPECT_EQ(one.tape->names, other.tape->names);
}

TEST(Elsewhere, WritesATimelineOfWhatIsComputed) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("trace.json");
  static_cast<void>(answer_of("--on dgx-h100 --trace " + path));
  const json trace = json::parse(test::read_file(path));
  std::size_t products = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["name"].get<std::string>().starts_with("matmul")) ++products;
  }
  // Two micro-batches; seven products a block and the head's, each once forward and twice backward.
  EXPECT_EQ(products, 2 * 3 * (7 * kLayers + 1));
}

TEST(Elsewhere, RefusesWhatIsNotRecorded) {
  const auto expect_refused = [](const std::string& flags, const char* because) {
    EXPECT_THAT(message_of<ConfigError>([&] { static_cast<void>(setup_of(flags)); }),
                HasSubstr(because))
        << flags;
  };
  expect_refused("--on dgx-h100 --val-data x", "--val-data does not go together with --on");
  expect_refused("--on dgx-h100 --device emulated", "--device does not go together with --on");
  expect_refused("--on dgx-h100 --metrics m", "--metrics has no meaning with --on");
  expect_refused("--on dgx-h100 --micro-batch 3", "4 % 3 = 1");
  expect_refused("--on-json", "--on-json has no meaning without --on CLUSTER");
}

TEST(Elsewhere, ASweepHasARowForEachLine) {
  const Sweep sweep{.flags = {"--micro-batch"},
                    .values = {{"1"}, {"3"}},
                    .lines = {words_of(kModel + "--on dgx-h100 --micro-batch 1"),
                              words_of(kModel + "--on dgx-h100 --micro-batch 3")}};
  const auto read = [](const std::vector<std::string>& words) {
    return parse_setup(list_of(test::plain_training()), words);
  };
  const std::string text = report_sweep(sweep, read);
  EXPECT_THAT(text, HasSubstr("tokens/s"));
  EXPECT_THAT(text, HasSubstr("4 % 3 = 1")) << "what is refused says why";
}

// Machines as --on names them.

TEST(OnOption, ReadsAClusterItsNodesAndKeys) {
  const Machine plain = parse_machine("dgx-h100");
  EXPECT_EQ(plain.cluster.name, "dgx-h100");
  EXPECT_FALSE(plain.nodes.has_value());
  const Machine changed = parse_machine("dgx-h100:16,nics_per_node=1,inter.bandwidth=1e9");
  EXPECT_EQ(changed.nodes, 16U);
  EXPECT_EQ(changed.cluster.nics_per_node, 1);
  EXPECT_EQ(changed.cluster.inter.bandwidth, 1e9);
  EXPECT_EQ(changed.cluster.intra.bandwidth, plain.cluster.intra.bandwidth);
}

TEST(OnOption, SaysWhatItCannotRead) {
  const auto expect_refused = [](const char* text, const char* because) {
    EXPECT_THAT(message_of<ConfigError>([&] { static_cast<void>(parse_machine(text)); }),
                AllOf(HasSubstr("--on"), HasSubstr(because)))
        << text;
  };
  expect_refused("dgx-x9", "no cluster is called 'dgx-x9'");
  expect_refused("dgx-h100:0", "a number of nodes of at least 1");
  expect_refused("dgx-h100:many", "a number of nodes of at least 1");
  expect_refused("dgx-h100:2,nics=1", "Its keys are gpus_per_node, ");
  expect_refused("dgx-h100:2,nics_per_node", "is no key=value");
  expect_refused("dgx-h100:2,nics_per_node=0.5", "needs a whole number");
  expect_refused("dgx-h100:2,straggler=fast", "needs a number");
  expect_refused("dgx-h100:2,nics_per_node=9", "from 1 to gpus_per_node");
}

// Lists of values on a command line that names another machine, and models by name.

bool reads_splits(const std::string& flag, const std::string&) { return flag == "--stage-split"; }

TEST(Sweep, IsEveryCombinationOfTheLists) {
  const Sweep sweep =
      sweep_of(words_of("--on dgx-h100:2,straggler=0 --tp 1,2 --zero --name=a,b,c"), reads_splits);
  EXPECT_THAT(sweep.flags, ElementsAre("--tp", "--name"));
  ASSERT_EQ(sweep.lines.size(), 6U);
  EXPECT_THAT(sweep.values[0], ElementsAre("1", "a"));
  EXPECT_THAT(sweep.values[1], ElementsAre("1", "b")) << "the last flag's values are the fastest";
  EXPECT_THAT(sweep.values[5], ElementsAre("2", "c"));
  EXPECT_EQ(sweep.lines[4], words_of("--on dgx-h100:2,straggler=0 --tp 2 --zero --name=b"));
}

TEST(Sweep, LeavesWhatAFlagReadsItself) {
  const std::vector<std::string> words = words_of("--stage-split 3,2,3 --tp 4");
  const Sweep sweep = sweep_of(words, reads_splits);
  EXPECT_TRUE(sweep.flags.empty());
  EXPECT_THAT(sweep.lines, ElementsAre(words));
}

TEST(Sweep, RefusesMoreThanAnybodyLooksAt) {
  std::string words;
  for (const char flag : {'a', 'b', 'c', 'd'}) words += std::string(" --") + flag + " 1,2,3,4,5,6";
  EXPECT_THAT(
      message_of<ConfigError>([&] { static_cast<void>(sweep_of(words_of(words), reads_splits)); }),
      HasSubstr("--a, --b, --c, --d have more than 1000 combinations"));
}

TEST(NamedModels, StandForTheirFlags) {
  const std::vector<NamedModel> models = {
      {.name = "tiny", .flags = {{"--layers", "2"}, {"--tied", ""}}}};
  EXPECT_EQ(with_model_flags(words_of("--model tiny --seq 8"), models),
            words_of("--model tiny --seq 8 --layers 2 --tied"));
  EXPECT_EQ(with_model_flags(words_of("--layers=3 --model=tiny"), models),
            words_of("--layers=3 --model=tiny --tied"))
      << "what the command line says itself holds";
  EXPECT_EQ(with_model_flags(words_of("--seq 8"), models), words_of("--seq 8"));
}

TEST(NamedModels, RefusesAnUnknownName) {
  const std::vector<NamedModel> models = {in_flags(nn::published_models().front())};
  EXPECT_THAT(message_of<ConfigError>([&] {
                static_cast<void>(with_model_flags(words_of("--model llama-9b"), models));
              }),
              HasSubstr("no model is called 'llama-9b'. Choose llama-1b, "));
}

}  // namespace
}  // namespace ultra::train
