#include "common/checkpoint/safetensors/convert.hpp"

#include <cstring>

#include "common/base/errors.hpp"

namespace ultra::checkpoint {
namespace {

template <StoredScalar Stored, StoredScalar Out>
void convert_each(std::span<const std::byte> bytes, std::span<Out> out) {
  ensure(bytes.size() == out.size() * sizeof(Stored), "as many elements as are wanted");
  const std::byte* from = bytes.data();
  for (Out& value : out) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));
    from += sizeof(Stored);
    value = number_as<Out>(stored);
  }
}

}  // namespace

bool is_converted(StoredType type) {
  return type == StoredType::kF16 || type == StoredType::kBF16 || type == StoredType::kF32 ||
         type == StoredType::kF64;
}

void convert(std::span<const std::byte> bytes, StoredType type, const Tensor& out) {
  ensure(is_converted(type), "a type that is converted");
  dispatch_stored(out.dtype(), [&]<class T>() {
    const std::span<T> values = out.span<T>();
    if (type == StoredType::kF16) return convert_each<Float16>(bytes, values);
    if (type == StoredType::kBF16) return convert_each<BFloat16>(bytes, values);
    if (type == StoredType::kF32) return convert_each<float>(bytes, values);
    return convert_each<double>(bytes, values);
  });
}

}  // namespace ultra::checkpoint
