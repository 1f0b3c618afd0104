#include "tests/support/amx_emulator.h"

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace mtf::testing {
namespace {

#if MTF_HAS_INSTRUCTION_SETS

constexpr int kRegisters = 8, kMostRows = 16, kMostWords = 16;

/// Registers of a thread. Rows and words behind the shape of a register are zero.
struct AmxRegisters {
  bool has_shapes = false;
  std::array<int, kRegisters> rows = {}, words = {};
  uint32_t data[kRegisters][kMostRows][kMostWords] = {};
};
thread_local AmxRegisters amx_registers;

void expect_legal(bool holds) {
  if (!holds) std::abort();  // what the machine would answer by SIGILL or SIGSEGV
}

/// An instruction with a VEX prefix of three bytes, in the map 0F38.
struct AmxInstruction {
  int prefix, opcode, second;  ///< of 0: none, 1: 66, 2: F3, 3: F2; the register of vvvv
  int mode, target, operand;   ///< of ModRM, extended
  const uint8_t* end;          ///< behind ModRM
  int index_bit, base_bit;
};

AmxInstruction decode_instruction(const uint8_t* code) {
  expect_legal(code[0] == 0xc4 && (code[1] & 0x1f) == 2 && (code[2] & 0x84) == 0);
  const uint8_t modrm = code[4];
  return {.prefix = code[2] & 3,
          .opcode = code[3],
          .second = ~code[2] >> 3 & 15,
          .mode = modrm >> 6,
          .target = (modrm >> 3 & 7) | (code[1] & 0x80 ? 0 : 8),
          .operand = (modrm & 7) | (code[1] & 0x20 ? 0 : 8),
          .end = code + 5,
          .index_bit = code[1] & 0x40 ? 0 : 8,
          .base_bit = code[1] & 0x20 ? 0 : 8};
}

int64_t general_register(const ucontext_t& context, int number) {
  static constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[number]];
}

struct MemoryOperand {
  std::byte* base;
  int64_t row_bytes;
  const uint8_t* end;  ///< behind the instruction
};

/// The memory operand. With an index it is the distance between rows.
MemoryOperand address_of(const ucontext_t& context, const AmxInstruction& instruction) {
  const uint8_t* code = instruction.end;
  int base = instruction.operand;
  int64_t row_bytes = 0;
  if ((instruction.operand & 7) == 4) {
    const uint8_t sib = *code++;
    const int index = (sib >> 3 & 7) | instruction.index_bit;
    base = (sib & 7) | instruction.base_bit;
    if (index != 4) row_bytes = general_register(context, index) << (sib >> 6);
  }
  expect_legal(instruction.mode != 3 && !(instruction.mode == 0 && (base & 7) == 5));
  int64_t place = general_register(context, base);
  if (instruction.mode == 1) place += static_cast<int8_t>(*code++);
  if (instruction.mode == 2) {
    int32_t distance;
    std::memcpy(&distance, code, sizeof distance);
    place += distance;
    code += sizeof distance;
  }
  return {reinterpret_cast<std::byte*>(place), row_bytes, code};
}

void set_register_shapes(const std::byte* from) {
  uint8_t bytes[64];
  std::memcpy(bytes, from, sizeof bytes);
  expect_legal(bytes[0] == 1 && bytes[1] == 0);
  amx_registers = {};
  amx_registers.has_shapes = true;
  for (int i = 0; i < kRegisters; ++i) {
    const int row_bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8, rows = bytes[48 + i];
    expect_legal(rows <= kMostRows && row_bytes <= 64 && row_bytes % 4 == 0 &&
                 (rows == 0) == (row_bytes == 0));
    amx_registers.rows[i] = rows;
    amx_registers.words[i] = row_bytes / 4;
  }
  for (int i = 2 * kRegisters + 16; i < 48; ++i) expect_legal(bytes[i] == 0);
  for (int i = 48 + kRegisters; i < 64; ++i) expect_legal(bytes[i] == 0);
}

void clear_register(int number) {
  std::memset(amx_registers.data[number], 0, sizeof amx_registers.data[number]);
}

/// The words of a row, as float32: the factors of even depths, and those of odd ones.
struct Factors {
  __m512 even, odd;
};
[[gnu::target("avx512f")]] Factors factors_of(__m512i words) {
  return {(__m512)((__v16su)words << 16), (__m512)((__v16su)words & 0xffff0000u)};
}

/// Checks the shapes of a product's registers.
void expect_product_shapes(int to, int first, int second) {
  const int rows = amx_registers.rows[to], columns = amx_registers.words[to],
            depth = amx_registers.rows[second];
  expect_legal(to != first && to != second && first != second && rows > 0 && depth > 0);
  expect_legal(amx_registers.rows[first] == rows && amx_registers.words[first] == depth &&
               amx_registers.words[second] == columns);
}

/// TDPBF16PS
[[gnu::target("avx512f")]] void add_bfloat16_products(int to, int first, int second) {
  expect_product_shapes(to, first, second);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x1f80 | _MM_FLUSH_ZERO_ON | 0x40);  // no exceptions, to nearest even, denormals are zero
  for (int m = 0; m < amx_registers.rows[to]; ++m) {
    __m512 even = {}, odd = {};
    for (int k = 0; k < amx_registers.rows[second]; ++k) {
      const Factors a = factors_of(_mm512_set1_epi32(static_cast<int>(amx_registers.data[first][m][k])));
      const Factors b = factors_of(_mm512_loadu_si512(amx_registers.data[second][k]));
      even = _mm512_fmadd_ps(a.even, b.even, even);
      odd = _mm512_fmadd_ps(a.odd, b.odd, odd);
    }
    uint32_t* const sums = amx_registers.data[to][m];
    _mm512_storeu_ps(sums, _mm512_loadu_ps(sums) + (even + odd));
  }
  _mm_setcsr(before);
}

/// TDPBSUD: signed bytes of the first times unsigned ones of the second.
void add_byte_products(int to, int first, int second) {
  expect_product_shapes(to, first, second);
  for (int m = 0; m < amx_registers.rows[to]; ++m) {
    for (int k = 0; k < amx_registers.rows[second]; ++k) {
      const uint32_t a = amx_registers.data[first][m][k];
      for (int n = 0; n < amx_registers.words[to]; ++n) {
        const uint32_t b = amx_registers.data[second][k][n];
        int32_t sum = 0;
        for (int byte = 0; byte < 32; byte += 8)
          sum += static_cast<int8_t>(a >> byte) * static_cast<uint8_t>(b >> byte);
        amx_registers.data[to][m][n] += static_cast<uint32_t>(sum);
      }
    }
  }
}

/// Runs an instruction and returns where the next one begins.
const uint8_t* run_instruction(const ucontext_t& context, const uint8_t* code) {
  const AmxInstruction instruction = decode_instruction(code);
  const int operation = instruction.opcode << 4 | instruction.prefix;
  if (operation == 0x490 && instruction.mode != 3) {  // LDTILECFG
    const MemoryOperand address = address_of(context, instruction);
    set_register_shapes(address.base);
    return address.end;
  }
  if (operation == 0x490) {  // TILERELEASE
    amx_registers = {};
    return instruction.end;
  }
  expect_legal(amx_registers.has_shapes && instruction.target < kRegisters &&
               amx_registers.rows[instruction.target] > 0);
  const int number = instruction.target;
  if (operation == 0x493) {  // TILEZERO
    clear_register(number);
    return instruction.end;
  }
  if (operation == 0x5c2 || operation == 0x5e2) {
    (operation == 0x5c2 ? add_bfloat16_products : add_byte_products)(number, instruction.operand,
                                                                     instruction.second);
    return instruction.end;
  }
  expect_legal(operation == 0x4b3 || operation == 0x4b2);
  const bool loads = operation == 0x4b3;  // TILELOADD, otherwise TILESTORED
  const MemoryOperand address = address_of(context, instruction);
  if (loads) clear_register(number);
  for (int row = 0; row < amx_registers.rows[number]; ++row) {
    std::byte* const memory = address.base + row * address.row_bytes;
    const size_t bytes = amx_registers.words[number] * sizeof(uint32_t);
    if (loads) {
      std::memcpy(amx_registers.data[number][row], memory, bytes);
    } else {
      std::memcpy(memory, amx_registers.data[number][row], bytes);
    }
  }
  return address.end;
}

void on_illegal_instruction(int, siginfo_t*, void* state) {
  auto& context = *static_cast<ucontext_t*>(state);
  auto& next = context.uc_mcontext.gregs[REG_RIP];
  next = reinterpret_cast<greg_t>(run_instruction(context, reinterpret_cast<const uint8_t*>(next)));
}

#endif

}  // namespace

bool emulate_amx() {
#if MTF_HAS_INSTRUCTION_SETS
  if (is_available(InstructionSet::kAmx)) return true;
  if (!has_avx512_bf16()) return false;
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return sigaction(SIGILL, &action, nullptr) == 0;
#else
  return false;
#endif
}

}  // namespace mtf::testing
