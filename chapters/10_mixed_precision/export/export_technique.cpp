#include "chapters/10_mixed_precision/export/export_technique.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "chapters/10_mixed_precision/export/half_weights.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::mixed_precision {
namespace {

class WeightExport : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override {
    const train::Flags flags(app, "Export");
    flags.add("--export", from_,
              "round the weights of this checkpoint to two bytes, for Hugging Face's programs, and "
              "train nothing");
    flags.add("--export-to", to_, "folder to write them to; must not exist yet");
    flags.add_one_of("--export-dtype", dtype_, {"bf16", "f16"}, "type of the exported weights");
  }

  void validate(train::Setup&) override {
    if (from_.empty() == to_.empty()) return;
    throw ConfigError(from_.empty()
                          ? "--export-to has no meaning without --export DIR, the checkpoint."
                          : "--export needs --export-to DIR, the folder to write to.");
  }

  [[nodiscard]] std::vector<train::Question> questions() const override {
    if (from_.empty()) return {};
    return {{"--export", train::Instead::kAnswer}};
  }

  [[nodiscard]] std::optional<std::string> answer(const train::Setup&) const override {
    if (from_.empty()) return {};
    const ExportedWeights written = export_half_weights(
        checkpoint::posix_files(), from_, to_, dtype_ == "f16" ? DType::kF16 : DType::kBF16);
    return fmt::format("Wrote {} tensors of '{}' in {} to '{}': {}.\n", written.tensors,
                       written.from.string(), dtype_, to_, format_bytes(written.bytes));
  }

 private:
  std::string from_;
  std::string to_;
  std::string dtype_ = "bf16";
};

}  // namespace

std::unique_ptr<train::Technique> weight_export() { return std::make_unique<WeightExport>(); }

}  // namespace ultra::mixed_precision
