// The executables with --freeze, started as a user starts them: layouts, checkpoints, refusals.
//
// Covers: common/train/weights/frozen_weights.hpp

#include <filesystem>
#include <map>

#include "common/checkpoint/safetensors/safetensors.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using namespace test;

const std::string kFrozen = "--steps 4 --global-batch 8 --micro-batch 2 --dtype f64 --freeze ";

class FrozenProgram : public ProgramTest {
 protected:
  FrozenProgram() : ProgramTest("04_zero") {}

  /// The losses of chapter 11's executable.
  [[nodiscard]] json losses_of_chapter_11(const std::string& line) const {
    const std::string path = folder.path("chapter_11.jsonl");
    expect_success(run_program("11_five_d", flags(line + " --metrics " + path)));
    return events_of(path).back().at("losses");
  }

  /// The weights of a checkpoint by their names.
  [[nodiscard]] static std::map<std::string, std::vector<double>> values_of(
      const std::string& step) {
    const checkpoint::SafetensorsReader file(checkpoint::posix_files(),
                                             step + "/model.safetensors");
    std::map<std::string, std::vector<double>> values;
    for (const checkpoint::StoredTensor& tensor : file.tensors()) {
      const Tensor out = Tensor::empty(Device::cpu(), Shape(tensor.shape), DType::kF32);
      file.read(tensor.name, 0, out.view({out.numel()}));
      values[tensor.name] = out.to_vector();
    }
    return values;
  }
};

TEST_F(FrozenProgram, EveryLayoutHasTheLossesOfOneRank) {
  for (const char* freeze : {"embed_tokens,model.layers.0.", "q_proj,norm,mlp.down_proj"}) {
    const std::string base = "--layers 3 " + kFrozen + freeze + " ";
    const json expected = losses_of(base);
    EXPECT_NE(expected, losses_of("--layers 3 --steps 4 --global-batch 8 --micro-batch 2 "
                                  "--dtype f64 "));
    for (const char* layout :
         {"--tp 2 --dp 2 --zero 1", "--tp 2 --sp on --dp 2 --zero 3 --shards rows",
          "--pp 3 --schedule 1f1b", "--pp 3 --schedule zero-bubble-h1",
          "--pp 3 --dp 2 --zero 3 --shards rows", "--pp 3 --dp 2 --zero 2", "--cp 2 --tp 2",
          "--pp 3 --tied-embeddings"}) {
      const bool is_tied = std::string(layout).ends_with("embeddings");
      expect_near_losses(losses_of_chapter_11(base + layout),
                         is_tied ? losses_of(base + "--tied-embeddings") : expected, 1e-10);
    }
  }
}

TEST_F(FrozenProgram, GoesOnFromACheckpointInAnotherLayout) {
  const std::string base = "--clip 0 " + kFrozen + "self_attn,embed_tokens ";
  const std::string folder_of = " --save-every 2 --checkpoint " + folder.path("saved");
  for (const char* rule : {"adamw", "muon"}) {
    std::filesystem::remove_all(folder.path("saved"));
    const std::string all = base + "--optimizer " + rule + " ";
    const json expected = losses_of(all + "--dp 2 --zero 3 --shards rows" + folder_of);
    const std::string half = folder.path("saved") + "/step-00000002";
    for (const char* layout :
         {"--dp 2 --zero 3 --shards rows", "--dp 2 --zero 2", "--dp 2 --zero 1", "--dp 1",
          "--dp 4 --zero 3 --shards rows --offload optimizer"}) {
      const json found = losses_of(all + layout + " --resume " + half);
      expect_near_losses(found, expected, 1e-10);
    }
  }
}

TEST_F(FrozenProgram, FrozenWeightsAreSavedAsTheyWereLoaded) {
  const std::string first = folder.path("first");
  const std::string second = folder.path("second");
  static_cast<void>(output_of("--steps 2 --checkpoint " + first));
  const std::string from = first + "/step-00000002";
  for (const char* layout : {"--dp 2 --zero 2", "--dp 3 --zero 3 --shards rows", "--dp 2"}) {
    std::filesystem::remove_all(second);
    static_cast<void>(output_of("--steps 2 --init " + from + " --freeze self_attn --checkpoint " +
                                second + " " + layout));
    const auto before = values_of(from);
    const auto after = values_of(second + "/step-00000002");
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, values] : before) {
      EXPECT_EQ(values == after.at(name), name.find("self_attn") != name.npos) << name;
    }
  }
}

TEST_F(FrozenProgram, WhatCannotBeIsRefused) {
  failed("--freeze embed_token.", 2,
         {"'embed_token.' is in no parameter's name", "lm_head.weight"});
  failed("--freeze model.,lm_head", 2, {"freezes all", "nothing would be trained"});
  failed("--dp 2 --zero 3 --freeze layers.1.mlp", 2,
         {"block 1 with 3 frozen parameters and 6", "--shards rows"});
  refused({{"--dp 2 --zero 3 --offload optimizer+params --freeze embed_tokens",
            {"--offload optimizer+params does not go together with --freeze"}}});
  const auto shapes = run_program("11_five_d", words_of("--shapes table --freeze lm_head"));
  EXPECT_EQ(shapes.exit_code, 2);
  EXPECT_THAT(shapes.err,
              HasSubstr("--shapes answers by formulas that count all weights as trained"));
  const TemporaryFolder elsewhere;
  const std::string saved = elsewhere.path("saved");
  expect_success(run({}, {"--steps", "2", "--freeze", "embed_tokens", "--checkpoint", saved}));
  failed("--steps 3 --resume " + saved, 2,
         {"was written with --freeze embed_tokens, this run has no --freeze"});
}

}  // namespace
}  // namespace ultra::zero
