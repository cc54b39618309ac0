// The automaton of BenchmarkMetering: clang-14 --target=wasm32 -O2 -nostdlib -Wl,--no-entry -Wl,-z,stack-size=4096 -o automaton.wasm automaton.c
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
static u8 text[65536]; static u16 next[64][256]; static u8 accept[64];
__attribute__((export_name("prepare"))) void prepare(u32 seed){
  u32 x=seed|1;
  for(u32 i=0;i<sizeof text;i++){ x^=x<<13; x^=x>>17; x^=x<<5; text[i]=x; }
  for(u32 s=0;s<64;s++) for(u32 c=0;c<256;c++){ x^=x<<13; x^=x>>17; x^=x<<5; next[s][c]=(x>>8)&63; }
  accept[63]=1;
}
__attribute__((export_name("run"))) u32 run(u32 n){
  u32 s=0,hits=0;
  for(u32 i=0;i<n;i++){ s=next[s][text[i]]; if(__builtin_expect(accept[s],0)) hits++; }
  return hits;
}
