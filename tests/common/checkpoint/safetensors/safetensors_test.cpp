#include "common/checkpoint/safetensors/safetensors.hpp"

#include <bit>
#include <cerrno>
#include <filesystem>

#include "common/checkpoint/files/file_layer.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "tests/common/checkpoint/file_text.hpp"
#include "tests/support/files/memory_input.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Writes a file as a checkpoint does: header first, then each tensor to its place.
SafetensorsHeader write_file(const std::string& path, const NamedTensors& tensors,
                             const Metadata& metadata = {}) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    const auto dims = tensor.shape().dims();
    specs.push_back({name, stored_type_for(tensor.dtype()), {dims.begin(), dims.end()}});
  }
  SafetensorsHeader header = make_header(specs, metadata);
  const auto file = posix_files().create(path);
  file->resize(header.file_size());
  file->write_at(0, header.to_bytes());
  for (const auto& [name, tensor] : tensors) {
    file->write_at(header.offset_of(*header.find(name), 0), comm::bytes_of(tensor));
  }
  file->sync();
  file->close();
  return header;
}

std::string refusal(const std::string& path) {
  return message_of<FileError>([&] { return SafetensorsReader(posix_files(), path); });
}

class SafetensorsFiles : public test::RandomTest {
 protected:
  Tensor random_tensor() {
    std::vector<std::size_t> dims(random.between(0, 4));
    for (std::size_t& extent : dims) extent = random.between(0, 5);
    const Shape shape{std::span<const std::size_t>(dims)};
    const DType dtype = random.pick({DType::kF32, DType::kF64, DType::kI32});
    if (dtype == DType::kI32) return random.tokens(device, shape, 1'000'000);
    return random.tensor(device, shape, dtype);
  }

  test::TemporaryFolder folder;
  std::string path = folder.path("model.safetensors");
};

TEST_F(SafetensorsFiles, RandomTensorsComeBack) {
  for (int round = 0; round < 20; ++round) {
    NamedTensors tensors(random.between(0, 8));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i] = {fmt::format("layer.{}", i), random_tensor()};
    }
    const Metadata metadata = {{"round", fmt::to_string(round)}};
    const SafetensorsHeader header = write_file(path, tensors, metadata);
    const SafetensorsReader reader(posix_files(), path);
    EXPECT_EQ(reader.tensors(), header.tensors());
    EXPECT_EQ(reader.metadata(), metadata);
    for (const auto& [name, tensor] : tensors) {
      const Tensor out = Tensor::empty(device, tensor.shape(), tensor.dtype());
      reader.read(name, 0, out);
      EXPECT_TRUE(test::all_equal(out, tensor)) << name;
    }
  }
}

TEST_F(SafetensorsFiles, AnyRangeOfElementsIsRead) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor tensor = random.tensor(device, {7, 11}, dtype);
    write_file(path, {{"before", random.tensor(device, {3}, dtype)}, {"w", tensor}});
    const SafetensorsReader reader(posix_files(), path);
    const std::vector<double> all = tensor.to_vector();
    for (int round = 0; round < 50; ++round) {
      const std::size_t first = random.between(0, all.size());
      const std::size_t count = random.between(0, all.size() - first);
      const Tensor out = Tensor::empty(device, {count}, dtype);
      reader.read("w", first, out);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      EXPECT_TRUE(test::all_equal(
          out, std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count))))
          << count << " elements from " << first << " on";
    }
  }
}

// Not through doubles: NaN's payload, the sign of zero and denormals are bits like others.
TEST_F(SafetensorsFiles, EveryBitComesBack) {
  std::vector<float> values;
  for (const std::uint32_t bits :
       {0x7FC12345U, 0xFFA00001U, 0x80000000U, 0x00000001U, 0xFF800000U}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  const Tensor tensor = Tensor::from<float>(device, {5}, values);
  write_file(path, {{"w", tensor}});
  const Tensor out = Tensor::empty(device, {5}, DType::kF32);
  SafetensorsReader(posix_files(), path).read("w", 0, out);
  EXPECT_TRUE(std::ranges::equal(comm::bytes_of(out), comm::bytes_of(tensor)));
}

// Put together by hand from the format's specification: nothing here uses the writer.
TEST_F(SafetensorsFiles, ReadsAFileBuiltByteByByte) {
  const std::string json =
      "{\"__metadata__\": {\"format\": \"pt\"},\n"
      " \"half\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [20, 24]},\n"
      " \"ids\": {\"dtype\": \"I32\", \"shape\": [1, 3], \"data_offsets\": [0, 12]},\n"
      " \"pi\": {\"dtype\": \"F64\", \"shape\": [], \"data_offsets\": [12, 20]}}";
  std::string file;
  file += static_cast<char>(json.size());  // fits into the lowest of the 8 bytes
  ASSERT_LT(json.size(), 256U);
  file += std::string(7, '\0');
  file += json;
  file += std::string("\x01\x00\x00\x00\xFF\xFF\xFF\xFF\x00\x00\x01\x00", 12);  // 1, -1, 65536
  file += std::string("\x18\x2D\x44\x54\xFB\x21\x09\x40", 8);  // 0x400921FB54442D18
  file += std::string("\x80\x3F\x00\xC0", 4);                  // 1.0 and -2.0
  const SafetensorsReader reader(posix_files(), folder.write("by_hand", file));
  EXPECT_THAT(reader.metadata(), ElementsAre(Pair("format", "pt")));
  const Tensor ids = Tensor::empty(device, {3}, DType::kI32);
  reader.read("ids", 0, ids);
  EXPECT_THAT(ids.to_vector(), ElementsAre(1, -1, 65536));
  const Tensor pi = Tensor::empty(device, {}, DType::kF64);
  reader.read("pi", 0, pi);
  EXPECT_EQ(*pi.data<double>(), 3.141592653589793);
  ASSERT_NE(reader.find("half"), nullptr);
  std::string half(3, '?');
  reader.read_bytes(*reader.find("half"), 1, std::as_writable_bytes(std::span(half)));
  EXPECT_EQ(half, std::string("\x3F\x00\xC0", 3));
}

TEST_F(SafetensorsFiles, TruncationAtEveryByteIsNoticed) {
  write_file(path,
             {{"a", random.tensor(device, {3}, DType::kF32)},
              {"none", Tensor::empty(device, {0, 2}, DType::kF64)},
              {"b", random.tensor(device, {2, 2}, DType::kF64)}},
             {{"step", "7"}});
  const std::string whole = test::read_file(path);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string message = refusal(folder.write("cut", whole.substr(0, length)));
    ASSERT_THAT(message, AllOf(HasSubstr("'" + folder.path("cut") + "'"), HasSubstr("is damaged")))
        << length << " of " << whole.size() << " bytes";
  }
  EXPECT_NO_THROW(SafetensorsReader(posix_files(), folder.write("cut", whole)));
  EXPECT_THAT(refusal(folder.write("cut", whole + "x")), HasSubstr("is damaged"));
}

TEST_F(SafetensorsFiles, AFileThatCannotBeReadIsReported) {
  EXPECT_THAT(refusal(path), AllOf(HasSubstr(path), HasSubstr("No such file")));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("Is a directory"));
  EXPECT_THAT(refusal(folder.write("model.bin", "PK\x03\x04 something else entirely")),
              HasSubstr("is it a safetensors file?"));
}

TEST_F(SafetensorsFiles, AFileThatLosesItsEndIsNoticedWhenItIsRead) {
  write_file(path, {{"w", random.tensor(device, {100}, DType::kF32)}});
  const SafetensorsReader reader(posix_files(), path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  const Tensor out = Tensor::empty(device, {100}, DType::kF32);
  EXPECT_THAT(message_of<FileError>([&] { reader.read("w", 0, out); }),
              AllOf(HasSubstr(path), HasSubstr("ends at byte")));
}

class SafetensorsReading : public test::RandomTest {
 protected:
  std::string file = file_text(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                               R"("h":{"dtype":"F16","shape":[2],"data_offsets":[24,28]}})",
                               28);
  SafetensorsReader reader{std::make_unique<test::MemoryInput>(file), "model.safetensors"};

  std::string read_error(const char* name, std::size_t first, const Tensor& out) {
    return message_of<FileError>([&] { reader.read(name, first, out); });
  }
};

TEST_F(SafetensorsReading, TheTensorMustBeThere) {
  const Tensor out = Tensor::empty(device, {1}, DType::kF32);
  EXPECT_THAT(read_error("v", 0, out),
              AllOf(HasSubstr("'model.safetensors' has no tensor \"v\"; it has 2"),
                    HasSubstr("for example \"w\"")));
  const SafetensorsReader none(std::make_unique<test::MemoryInput>(file_text("{}")), "none");
  EXPECT_THAT(message_of<FileError>([&] { none.read("v", 0, out); }),
              HasSubstr("'none' has no tensor \"v\"; it has 0"));
}

TEST_F(SafetensorsReading, TheTypeMustMatch) {
  EXPECT_THAT(read_error("w", 0, Tensor::empty(device, {1}, DType::kF64)),
              HasSubstr("tensor \"w\" holds elements of F32, expected F64"));
  EXPECT_THAT(read_error("h", 0, Tensor::empty(device, {1}, DType::kF32)),
              HasSubstr("tensor \"h\" holds elements of F16, expected F32"));
}

TEST_F(SafetensorsReading, TheElementsMustBeThere) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const auto& [first, count] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 7}, {6, 1}, {7, 0}, {kMost, 2}}) {
    EXPECT_THAT(read_error("w", first, Tensor::empty(device, {count}, DType::kF32)),
                AllOf(HasSubstr("tensor \"w\" of shape [2, 3] has 6 elements"),
                      HasSubstr(fmt::format("expected {} from element {} on", count, first))));
  }
  EXPECT_NO_THROW(reader.read("w", 6, Tensor::empty(device, {0}, DType::kF32)));
}

TEST_F(SafetensorsReading, TheBytesMustBeThere) {
  std::string bytes(5, '?');
  const auto out = std::as_writable_bytes(std::span(bytes));
  const StoredTensor& half = *reader.find("h");
  EXPECT_NO_THROW(reader.read_bytes(half, 0, out.first(4)));
  EXPECT_THAT(message_of<FileError>([&] { reader.read_bytes(half, 0, out); }),
              HasSubstr("tensor \"h\" has 4 bytes, expected 5 from byte 0 on"));
  EXPECT_THROW(reader.read_bytes(half, 5, out.first(0)), FileError);
}

TEST_F(SafetensorsReading, TheTargetMustBeContiguous) {
  const Tensor matrix = Tensor::empty(device, {2, 3}, DType::kF32);
  EXPECT_THAT(message_of<ShapeError>([&] { reader.read("w", 0, matrix.transpose(0, 1)); }),
              HasSubstr("must be contiguous, found shape [3, 2] with strides [1, 3]"));
  EXPECT_THROW(reader.read("w", 0, Tensor()), ShapeError);
}

using Call = std::pair<std::size_t, std::size_t>;  // done, left

TEST(TransferAll, RepeatsWhatASignalInterrupts) {
  std::vector<Call> calls;
  const TransferResult result = transfer_all(6, [&](std::size_t done, std::size_t left) {
    calls.emplace_back(done, left);
    if (calls.size() % 2 == 1) {
      errno = EINTR;
      return ssize_t{-1};
    }
    return ssize_t{3};
  });
  EXPECT_EQ(calls, (std::vector<Call>{{0, 6}, {0, 6}, {3, 3}, {3, 3}}));
  EXPECT_EQ(result.done, 6U);
  EXPECT_EQ(result.error, 0);
}

TEST(TransferAll, StopsAtAnErrorAndSaysHowFarItCame) {
  const TransferResult result = transfer_all(10, [](std::size_t done, std::size_t) {
    if (done == 0) return ssize_t{7};
    errno = ENOSPC;
    return ssize_t{-1};
  });
  EXPECT_EQ(result.done, 7U);
  EXPECT_EQ(result.error, ENOSPC);
}

TEST(TransferAll, StopsWhereTheFileEnds) {
  errno = EIO;  // of an earlier call: must not count
  const TransferResult result = transfer_all(
      10, [](std::size_t done, std::size_t) { return done == 0 ? ssize_t{7} : ssize_t{0}; });
  EXPECT_EQ(result.done, 7U);
  EXPECT_EQ(result.error, 0);
}

}  // namespace
}  // namespace ultra::checkpoint
