// Sound files of other programs in a checkpoint: they are not called damaged, and all ranks say
// what they lack.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_reader.hpp
// Covers: chapters/04_zero/checkpoints/checkpoint_files.hpp

#include <fmt/format.h>

#include <span>

#include "common/checkpoint/checksum.hpp"
#include "common/checkpoint/safetensors/safetensors_header.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_json_fuzz_case.hpp"
#include "tests/chapters/04_zero/checkpoints/damaged_checkpoint.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

/// Files that are as they were written, with their checksums, and not what the training needs.
class ForeignFiles : public DamagedCheckpoint {
 protected:
  const std::string kWeights = "model.safetensors";
  const std::string kMoments = "optimizer-00000-of-00004.safetensors";

  /// The tensors of a file.
  [[nodiscard]] std::vector<checkpoint::TensorSpec> tensors_of(const std::string& file) const {
    const std::string& text = text_of(file);
    std::vector<checkpoint::TensorSpec> specs;
    const auto header = checkpoint::parse_header(std::as_bytes(std::span(text)), text.size(), file);
    for (const checkpoint::StoredTensor& tensor : header.tensors()) {
      specs.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
    }
    return specs;
  }

  /// Puts a file of these tensors, all zeros, in the place of one of the last checkpoint's.
  void replace(const std::string& file, const std::vector<checkpoint::TensorSpec>& specs) const {
    restore();
    const checkpoint::SafetensorsHeader header = checkpoint::make_header(specs);
    const std::vector<std::byte> start = header.to_bytes();
    std::string text(header.file_size(), '\0');
    std::copy_n(reinterpret_cast<const char*>(start.data()), start.size(), text.begin());
    disk.write("all/" + step_name(3) + "/" + file, text);
    for (int writer = 0; writer < 4; ++writer) {
      json parts = json::array();
      const std::string list = fmt::format("parts-{:05}-of-00004.json", writer);
      for (const json& part : json::parse(text_of(list))) {
        if (part.at("file") != file) parts.push_back(part);
      }
      if (writer == 0) {
        parts.push_back({{"file", file},
                         {"offset", 0},
                         {"bytes", text.size()},
                         {"crc32", checkpoint::crc32_of(std::as_bytes(std::span(text)))}});
      }
      disk.write("all/" + step_name(3) + "/" + list, parts.dump());
    }
  }

  void expect_foreign(const std::string& file, const std::vector<checkpoint::TensorSpec>& specs,
                      Words parts) {
    replace(file, specs);
    parts.insert(parts.end(), {"is whole, but not of this training", "Resume a checkpoint that"});
    const ProcessResult result =
        failed(kSixSteps, 2, parts, {"--dp", "3", "--zero", "3", "--resume", saved()});
    EXPECT_THAT(result.err, Not(HasSubstr("damaged")));
    EXPECT_THAT(result.err, StartsWith("error: checkpoint file")) << "all ranks say the same";
  }
};

TEST_F(ForeignFiles, WithTheirOwnChecksumsTheyAreLoaded) {
  replace(kWeights, tensors_of(kWeights));
  expect_success(run(kSixSteps, {"--dp", "3", "--zero", "3", "--resume", saved()}));
}

TEST_F(ForeignFiles, OfAnotherType) {
  for (const std::string& file : {kWeights, kMoments}) {
    auto specs = tensors_of(file);
    specs.back().type = checkpoint::StoredType::kBF16;
    expect_foreign(file, specs,
                   {file, "holds elements of BF16, --dtype f64 needs F64", "nothing is converted"});
  }
}

TEST_F(ForeignFiles, WithOtherTensors) {
  auto specs = tensors_of(kWeights);
  const std::string name = specs.back().name;
  specs.back().name = "\x1b[31m" + std::string(200, 'x');
  expect_foreign(kWeights, specs, {kWeights, "has no tensor \"" + name + "\""});
  specs = tensors_of(kWeights);
  specs.push_back({.name = "another", .type = specs.back().type, .shape = {3}});
  expect_foreign(
      kWeights, specs,
      {kWeights, fmt::format("{} tensors, the model has {}", specs.size(), specs.size() - 1)});
  specs = tensors_of(kWeights);
  specs.front().shape.push_back(1);
  expect_foreign(kWeights, specs, {kWeights, "has shape [", ", 1], the model's has ["});
}

TEST_F(ForeignFiles, WithOtherMoments) {
  auto specs = tensors_of(kMoments);
  specs.back().name = "\x1b[31m" + std::string(200, 'x');
  expect_foreign(kMoments, specs,
                 {kMoments, "\"\\u001b[31mxxx", "is none of the optimizer's states"});
  specs = tensors_of(kMoments);
  specs.pop_back();
  expect_foreign(kMoments, specs, {"optimizer-*.safetensors", "of exp_avg_sq of \""});
}

// Damaged JSON files of checkpoints: refused with a message, or read and consistent.

using test::CheckpointJsonFuzz;

TEST_F(CheckpointJsonFuzz, ChangedFilesAreRefusedOrConsistent) { expect_of_every_kind(1'000); }

}  // namespace
}  // namespace ultra::zero
