#pragma once
/// @file
/// Any bytes as a safetensors file: refused with a message, or read and consistent.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ultra::test {

/// @brief Reads bytes as a safetensors file, and checks what comes out of it.
/// @return whether the file was accepted; else it was refused by a FileError of one line.
/// @throws std::logic_error when what was accepted contradicts itself: a bug of the reader.
bool accepts_safetensors(std::span<const std::byte> file);

}  // namespace ultra::test

/// @brief What libFuzzer calls with each input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
