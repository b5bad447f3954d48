#include "chapters/04_zero/checkpoints/checkpoint_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "chapters/04_zero/checkpoints/durable_files.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/checkpoint/checksum.hpp"
#include "common/train/run/agree.hpp"
#include "common/train/run/text_messages.hpp"

namespace ultra::zero {
namespace {

class CancellableFile final : public checkpoint::OutputFile {
 public:
  CancellableFile(std::unique_ptr<checkpoint::OutputFile> file, const std::atomic<bool>& cancelled)
      : file_(std::move(file)), cancelled_(cancelled) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (bytes.size() > kCancellablePiece) {
      expect_wanted();
      file_->write_at(offset, bytes.first(kCancellablePiece));
      file_->sync();
      offset += kCancellablePiece;
      bytes = bytes.subspan(kCancellablePiece);
    }
    expect_wanted();
    file_->write_at(offset, bytes);
  }
  void resize(std::uint64_t bytes) override { file_->resize(bytes); }
  void sync() override {
    expect_wanted();
    file_->sync();
  }
  void close() override { file_->close(); }

 private:
  void expect_wanted() const {
    if (cancelled_) throw Interrupted("the writing of a file was told to stop");
  }

  std::unique_ptr<checkpoint::OutputFile> file_;
  const std::atomic<bool>& cancelled_;
};

/// Between two looks of a rank that waits for its own writing thread.
constexpr auto kInterval = std::chrono::milliseconds(2);

/// A name that no two runs draw.
std::string new_run_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

/// Whether a condition holds on every rank.
bool on_all(bool holds, const Communicator& world) {
  const Tensor answer = Tensor::zeros(Device::cpu(), {1}, DType::kI32);
  answer.span<std::int32_t>()[0] = holds ? 1 : 0;
  world.labeled("checkpoint").all_reduce(answer, ReduceOp::kMin).wait();
  return answer.span<std::int32_t>()[0] == 1;
}

}  // namespace

std::unique_ptr<checkpoint::OutputFile> CancellableFiles::create(
    const std::filesystem::path& path) {
  return std::make_unique<CancellableFile>(files_.create(path), cancelled_);
}

std::unique_ptr<checkpoint::OutputFile> CancellableFiles::open_for_writing(
    const std::filesystem::path& path) {
  return std::make_unique<CancellableFile>(files_.open_for_writing(path), cancelled_);
}

CheckpointWriter::CheckpointWriter(checkpoint::FileLayer& files,
                                   const std::filesystem::path& folder, std::size_t keep,
                                   Communicator world)
    : files_(files), folder_(files, folder), keep_(keep), world_(std::move(world)) {
  train::agree(world_, [&] {
    if (world_.rank() == 0) folder_.prepare();
  });
  run_ = train::broadcast_text(world_, new_run_name());
}

CheckpointWriter::~CheckpointWriter() {
  stop();
  if (!step_ || world_.rank() != 0) return;
  try {
    files_.remove_all(staging());
  } catch (const Error&) {  // the next run removes it
  }
}

void CheckpointWriter::stop() {
  cancelled_ = true;
  if (thread_.joinable()) thread_.join();
  cancelled_ = false;
}

// [region begin]
void CheckpointWriter::begin(const TrainingState& state, const TrainingRecord& record,
                             const Companions& companions) {
  finish();
  PendingFiles pending = pending_files(state, record, world_.rank(), companions);
  step_ = record.steps.size();
  writers_ = record.writers;
  train::agree(world_, [&] {
    if (world_.rank() != 0) return;
    files_.make_folder(staging());
    const auto weights = files_.create(staging() / kWeightsFile);
    weights->resize(pending.weights_bytes);  // a disk that is too full is noticed here
    weights->close();
  });
  done_ = false;
  thread_ = std::thread([this, pending = std::move(pending)] {
    try {
      write(pending);
    } catch (...) {
      failure_ = std::current_exception();
    }
    done_ = true;
  });
}
// [/region]

void CheckpointWriter::write(const PendingFiles& pending) {
  const std::filesystem::path folder = staging();
  written_.clear();
  std::span<const PendingPart> left = pending.parts;
  while (!left.empty() && !cancelled_) {
    std::size_t count = 1;
    while (count < left.size() && left[count].file == left[0].file) ++count;
    write_file(folder / left[0].file, left.first(count));
    left = left.subspan(count);
  }
  if (cancelled_) return;
  const std::vector<PendingPart> list = {{.file = parts_file(world_.rank(), writers_),
                                          .offset = 0,
                                          .text = to_json(written_),
                                          .values = {}}};
  write_file(folder / list[0].file, list);
}

void CheckpointWriter::write_file(const std::filesystem::path& file,
                                  std::span<const PendingPart> parts) {
  std::vector<FilePart> bytes;
  for (const PendingPart& part : parts) {
    bytes.push_back({.offset = part.offset, .bytes = part.bytes()});
    written_.push_back({.file = part.file,
                        .offset = part.offset,
                        .bytes = part.bytes().size(),
                        .crc32 = checksum(part.bytes())});
  }
  CancellableFiles files(files_, cancelled_);
  if (file.filename() != kWeightsFile) files.create(file)->close();
  write_durably(files, file, bytes);
}

std::uint32_t CheckpointWriter::checksum(std::span<const std::byte> bytes) const {
  std::uint32_t crc = 0;
  while (!bytes.empty() && !cancelled_) {
    const auto piece = bytes.first(std::min(bytes.size(), kCancellablePiece));
    crc = checkpoint::crc32_of(piece, crc);
    bytes = bytes.subspan(piece.size());
  }
  return crc;
}

void CheckpointWriter::poll() {
  if (step_ && on_all(done_, world_)) commit();
}

void CheckpointWriter::finish() {
  if (step_) commit();
}

// [region commit]
void CheckpointWriter::commit() {
  while (!done_) {
    throw_if_interrupted();
    std::this_thread::sleep_for(kInterval);
  }
  thread_.join();
  const std::size_t step = *step_;
  // All ranks know that all have written, or all fail alike.
  train::agree(world_, [&] {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  });
  train::agree(world_, [&] {
    if (world_.rank() != 0) return;
    commit_folder(files_, staging(), folder_.checkpoint(step));
    if (keep_ > 0) folder_.keep_newest(keep_);
  });
  step_.reset();
}
// [/region]

}  // namespace ultra::zero
